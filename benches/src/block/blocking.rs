//! Flows that block as threads do: by the standard library, and by a crate that uses it.

use super::flows::{Flows, Join};
use super::request::{Figures, Request};
use super::window::{Tally, measure};
use anyhow::{Context, Result, ensure};
use redis::{AsyncConnectionConfig, Client, Connection, aio, cmd};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How long each of the sleepers sleeps.
const NAP: Duration = Duration::from_millis(10);
/// How long the holder of the mutex sleeps.
const SHORT: Duration = Duration::from_micros(50);

/// Each flow sleeps, again and again.
pub(super) fn sleep(flows: &Flows, request: &Request) -> Result<Figures> {
    let body = |tally: &Tally| {
        tally.await_begin();
        loop {
            thread::sleep(NAP);
            if !tally.note(1) {
                break;
            }
        }
    };
    match flows {
        Flows::Tasks(runtime) => measure(request, |_, tally| {
            let body = async move {
                loop {
                    tokio::time::sleep(NAP).await;
                    if !tally.note(1) {
                        break;
                    }
                }
            };
            Ok(Flows::spawn_task(runtime, body))
        }),
        _ => measure(request, |_, tally| flows.spawn(move || body(&tally))),
    }
}

/// The holder of a mutex lets others run.
pub(super) fn give_way() {
    thread::yield_now();
}

/// The holder of a mutex sleeps.
pub(super) fn nap() {
    thread::sleep(SHORT);
}

/// All want one mutex of the standard library, and the holder does this.
pub(super) fn mutex(flows: &Flows, request: &Request, inside: fn()) -> Result<Figures> {
    let mutex = Arc::new(Mutex::new(0u64));
    let figures = measure(request, |_, tally| {
        let mutex = Arc::clone(&mutex);
        flows.spawn(move || {
            tally.await_begin();
            loop {
                let mut held = mutex.lock().expect("a holder panicked");
                let before = *held;
                inside();
                *held = before + 1;
                drop(held);
                if !tally.note(1) {
                    break;
                }
            }
        })
    })?;
    // What was done before and after the time is there, too.
    let held = mutex.lock().expect("a holder panicked");
    ensure!(*held >= figures.operations, "the mutex does not exclude");
    Ok(figures)
}

/// Each flow has a connection to a database, and sets and gets a key of its own.
pub(super) fn ask(flows: &Flows, request: &Request, port: u16) -> Result<Figures> {
    let client = Client::open(("127.0.0.1", port))?;
    match flows {
        Flows::Tasks(runtime) => measure(request, |index, tally| {
            let client = client.clone();
            let body = async move { tally.end(ask_in_task(&client, index, &tally).await) };
            Ok(Flows::spawn_task(runtime, body))
        }),
        _ => measure(request, |index, tally| -> Result<Join> {
            let client = client.clone();
            flows.spawn(move || tally.end(ask_in_flow(&client, index, &tally)))
        }),
    }
}

/// The key of a flow, and its value.
fn entry(index: usize) -> (String, String) {
    (format!("key{index}"), format!("{index:064}"))
}

fn ask_in_flow(client: &Client, index: usize, tally: &Tally) -> Result<()> {
    let mut connection: Connection = client.get_connection().context("cannot connect")?;
    let (key, value) = entry(index);
    tally.await_begin();
    loop {
        cmd("SET").arg(&key).arg(&value).exec(&mut connection)?;
        let found: String = cmd("GET").arg(&key).query(&mut connection)?;
        ensure!(found == value, "a wrong answer: {found}");
        if !tally.note(2) {
            return Ok(());
        }
    }
}

async fn ask_in_task(client: &Client, index: usize, tally: &Tally) -> Result<()> {
    // As the other form of the client: it waits for any time.
    let patient = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&patient);
    let mut connection: aio::MultiplexedConnection = connection.await.context("cannot connect")?;
    let (key, value) = entry(index);
    loop {
        cmd("SET")
            .arg(&key)
            .arg(&value)
            .exec_async(&mut connection)
            .await?;
        let found: String = cmd("GET").arg(&key).query_async(&mut connection).await?;
        ensure!(found == value, "a wrong answer: {found}");
        if !tally.note(2) {
            return Ok(());
        }
    }
}
