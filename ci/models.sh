#!/bin/sh
# Runs the models of the protocols under shuttle (umcg-core/tests/model, umcg/tests/model): first with bugs planted in a copy
# of the sources, each of which has to be found, then the sources as they are, under many more schedules. A failure prints
# UMCG_MODEL_SEED, which repeats it. Likewise those under loom (umcg/tests/loom), for which the bugs are memory orderings
# that are too weak.
#
#   ci/models.sh [RUNS [all]]      RUNS: schedules a test and a scheduler; 1500 where not given
#
# Of the bugs a third is tried, which one depends on the commit; all of them with `all`.
set -eu
cd "$(dirname "$0")/.."
runs=${1:-1500}
if [ "${2:-}" = all ]; then
    parts=1
else
    parts=3
fi
part=$(($(git rev-parse HEAD 2> /dev/null | cksum | cut -d ' ' -f 1) % parts))
base=${CARGO_TARGET_DIR:-$PWD/target}
jobs=$base/planted
# So many bugs are tried at once, each in a copy of the sources of its own.
lanes=$(nproc)

say() {
    echo "models.sh: $*" >&2
}

# with_shuttle COMMAND...: cargo, for the models under shuttle. A target folder of its own, as the flag goes into every crate.
with_shuttle() {
    CARGO_TARGET_DIR="$base/shuttle" RUSTFLAGS="--cfg shuttle" CARGO_PROFILE_DEV_DEBUG=0 \
        CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 "$@"
}

# with_loom COMMAND...: cargo, for the models under loom.
with_loom() {
    CARGO_TARGET_DIR="$base/loom" RUSTFLAGS="--cfg loom" CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_DEV_DEBUG=0 \
        timeout --kill-after=5 600 "$@"
}

# newest FILES...: the newest of them.
newest() {
    # shellcheck disable=SC2012 # names without blanks
    ls -t "$@" | head -n 1
}

# compiled CHECKER SOURCE OPTIONS...: compiles the models of a checker, into $lane/models. By the compiler alone, as cargo
# would make the library anew for each bug, though they do not use it.
compiled() {
    checker=$1
    deps=$base/$1/debug/deps
    source=$2
    shift 2
    for crate in "$checker" lock_api libc rustix; do
        for file in "$deps/lib$crate"-*.rlib; do
            [ ! -e "$file" ] || set -- "$@" --extern "$crate=$(newest "$deps/lib$crate"-*.rlib)"
            break
        done
    done
    rustc --edition 2024 --test --crate-name models --cfg "$checker" -A warnings -L "dependency=$deps" \
        -C "incremental=$lane/incremental" -o "$lane/models" "$@" "$source"
}

# plant_in PACKAGE SOURCE MODELS...: where the bugs that follow are planted, and which models are about that; all of them when none is named. The package
# may be "loom".
plant_in() {
    planted_in=$*
}

# planted WHAT SCRIPT: the models are to fail when this sed script has changed the source.
planted() {
    count=$((${count:-0} + 1))
    printf '%s\n' "$1" > "$jobs/$count.what"
    printf '%s\n' "$2" > "$jobs/$count.sed"
    printf '%s\n' "$planted_in" > "$jobs/$count.where"
}

# go_through RUNS PACKAGE MODELS...: whether the models, in the current folder, do. The first failure is enough; that of the
# model that always has to fail would be one.
go_through() {
    times=$1
    package=$2
    shift 2
    status=0
    if [ "$package" = loom ]; then
        compiled loom umcg/tests/loom/main.rs -C opt-level=1 || return
        timeout --kill-after=5 900 "$lane/models" "$@" || status=$?
    else
        compiled shuttle "$package/tests/model/main.rs" || return
        UMCG_MODEL_STOP=1 UMCG_MODEL_RUNS=$times timeout --kill-after=5 900 "$lane/models" \
            --skip posting_before_saving "$@" || status=$?
    fi
    [ $status != 139 ] || echo "SIGSEGV"
    return $status
}

# try_bug JOB: whether the models find it.
try_bug() {
    what=$(cat "$jobs/$1.what")
    # shellcheck disable=SC2046 # names without blanks
    set -- "$1" $(cat "$jobs/$1.where")
    job=$1
    package=$2
    planted_source=$3
    shift 3
    sed -f "$jobs/$job.sed" "$root/$planted_source" > "$planted_source"
    if cmp -s "$root/$planted_source" "$planted_source"; then
        say "FAILED: $what: the sources have changed, so this bug was not planted"
        return 1
    fi
    # A few schedules of each model find most bugs; more of them only if they do not. They are random:
    # one bug that takes 1,000 on average would go through 3,000 in one of twenty runs.
    for runs in 150 3000 30000; do
        if ! go_through $runs "$package" "$@" > "$lane/log" 2>&1; then
            break
        elif [ $runs = 30000 ] || [ "$package" = loom ]; then
            say "FAILED: $what: went through"
            return 1
        fi
    done
    # Where a frame is looked at that is gone the checker may crash before it can tell.
    if ! grep -Eq "panicked at|SIGSEGV" "$lane/log"; then
        cat "$lane/log" >&2
        say "FAILED: $what: no model found it, but something else went wrong"
        return 1
    fi
    cp "$root/$planted_source" "$planted_source"
    say "found: $what"
}

# try_some NUMBER: tries each bug that is this lane's, in a copy of the sources of its own.
try_some() {
    lane=$jobs/lane-$1
    mkdir -p "$lane/sources"
    tar -c --exclude=./target --exclude=./.git --exclude="$base" . | tar -x -C "$lane/sources"
    root=$PWD
    cd "$lane/sources"
    job=$1
    wrong=0
    while [ "$job" -le "$count" ]; do
        if [ "$job" -gt 0 ] && [ $((job % parts)) = "$part" ]; then
            (try_bug "$job") || wrong=1
        fi
        job=$((job + lanes))
    done
    return $wrong
}

# try_all: tries all bugs.
try_all() {
    running=
    number=0
    while [ $number -lt "$lanes" ]; do
        (try_some $number) &
        running="$running $!"
        number=$((number + 1))
    done
    status=0
    for process in $running; do
        wait "$process" || status=1
    done
    return $status
}

rm -rf "$jobs"
mkdir -p "$jobs"

plant_in umcg-core umcg-core/src/umcg/idle.rs two:: storm::
planted "an event that nobody is called for" \
    '/pub(crate) fn post(/,/^    }/ s/self.call_one(&inner, CALLED)/None/'
planted "a server that sits down after an event came" \
    's/sit_down(&inner, seat, until);/drop(inner); let inner = self.lock(); sit_down(\&inner, seat, until);/'
planted "a server that sleeps past a deadline" \
    's/deadline.unwrap_or(u64::MAX).min(inner.timers.next_deadline())/deadline.unwrap_or(u64::MAX)/'
planted "a deadline that nobody is told of" \
    '/fn hand_over_timed/,/^    }/ s/self.call_if_needed(&inner)/None/'
planted "a server that leaves without handing the deadlines on" \
    's/break (Waited::TimedOut, self.call_if_needed(&inner))/break (Waited::TimedOut, None)/'
planted "a claim in two steps" \
    's/self.state.compare_exchange(from, to, Acquire, Relaxed).is_ok()/(self.state.load(Acquire) == from \&\& { self.state.store(to, Release); true })/'
planted "a claim that does not look again under the lock" \
    's/let claimed = self.state.load(Relaxed) == word(tid, state::RUNNABLE_TIMED);/let claimed = true;/'
planted "a worker that runs while its timer is armed" \
    '/fn forget_deadline/,/^    }/ s/if node.armed.load(Relaxed) {/if false {/'
planted "a TIMEOUT that outlives its wait" \
    '/fn forget_deadline/,/^    }/ s/if node.events.load(Relaxed) != 0 {/if false {/'
planted "TIMEOUT before WAIT" \
    's/\[Kind::Wake, Kind::Wait, Kind::Timeout, Kind::Exit\]/[Kind::Wake, Kind::Timeout, Kind::Wait, Kind::Exit]/'
planted "a server that waits for a worker and is not woken" \
    's/self.watchers.load(SeqCst) != 0/false/'
planted "a server that stays in the list of idle ones" \
    '/^fn stand_up/,/^}/ s/if word == SEATED {/if false {/'

plant_in umcg-core umcg-core/src/umcg/helper/pool.rs helpers::
planted "a helper that comes back past a worker that waits" \
    '/fn came_back/,/^    }/ s/if state.waiting > 0 {/if false {/'
planted "a helper that falls asleep over a worker that was just submitted" \
    's/let submitted = self.submitted.load(Relaxed);//; s/let until = if is_over/let submitted = self.submitted.load(Relaxed);\n            &/'
planted "a helper more than there may be" \
    's/let waits = state.alive >= most;/let waits = state.alive > most;/'
planted "a helper that was not made, and the claim to it" \
    '/fn exceed/,/^    }/ s/state.waiting += 1;/()/'
planted "a helper that has come back meanwhile, and is promised twice" \
    '/fn exceed/,/^    }/ s/if state.free > 0 {/if false {/'

plant_in umcg-core umcg-core/src/umcg/helper/maker.rs helpers::
planted "no helper for workers that wait for each other" \
    's/pool.exceed();//'
planted "a request that the maker sleeps over" \
    's/let called = pool.maker.called.load(Relaxed);//; s/let now = monotonic();/&\n        let called = pool.maker.called.load(Relaxed);/'

plant_in umcg umcg/src/rt/per_server.rs per_server::
planted "an owner that does not look whether it is revoked" \
    's/if self.revoked.load(Acquire) {/if false {/'
planted "another that does not revoke" \
    's/self.revoked.store(true, Relaxed);//'
planted "another that does not wait until the owner is outside" \
    's/while self.busy.load(Acquire) {/while false {/'
planted "another that gives up and comes in" \
    's/entered.1.then(|| f(unsafe/Some(()).map(|()| f(unsafe/'
planted "two others at once" \
    '/pub fn other</,/^    }/ s/let _mutex = cell/let _ = cell/'
planted "an owner that is outside before it is done" \
    's/let inside = self.cells\[here.index()\].enter_own(here);/&\n        inside.0.busy.store(false, Release);/'
planted "a revoked owner that waits for nobody" \
    '/fn enter_own_slow/,/^    }/ s/let _mutex = self.mutex.lock();//'
planted "a revoked owner that frees the mutex before it is busy" \
    '/fn enter_own_slow/,/^    }/ s/let _mutex = self/let _ = self/'
planted "a revoked owner that does not say that it is back" \
    '/fn enter_own_slow/,/^    }/ s/self.busy.store(true, Relaxed);//'
planted "a revoked owner that stays busy while it waits" \
    '/fn enter_own_slow/,/^    }/ s/self.busy.store(false, Release);//'

plant_in umcg umcg/src/rt/park.rs park::
planted "an unpark that comes before the park is forgotten" \
    's/else { state | SIGNAL };/else { state };/'
planted "a worker that is parked before its context is saved" \
    's/running.suspend(commit::<BY>);/task.state.store(PARKED | BY << ENDS, Release);\n    &/'
planted "a worker that parks over an unpark" \
    's/Err(now) if now \& BY != 0 => return false,//'
planted "a worker that could not park, and is lost" \
    '/^fn commit/,/^}/ s/local.make_ready(.*);//'
planted "a worker that two have the right to run" \
    's/compare_exchange(parked, EMPTY, AcqRel, Relaxed)/compare_exchange(parked, parked, AcqRel, Relaxed)/'
planted "a thread that is not woken" \
    's/let _ = futex::wake(&task.state, Flags::PRIVATE, 1);//'
planted "a thread whose deadline leaves it asleep to others" \
    's/return task.state.fetch_and(SIGNALS \& !BY, Acquire) \& HOW != SLEEPING;/return false;/'
planted "an unpark that is remembered twice" \
    's/task.state.fetch_and(!BY, Acquire);/task.state.load(Acquire);/'
planted "a sleep that takes the unpark for the park after it" \
    's/^const BY_OWN: u32 = OWN;/const BY_OWN: u32 = OWN | TOKEN;/'
planted "a park that takes what a waker said" \
    's/^const BY_TOKEN: u32 = OWN | TOKEN;/const BY_TOKEN: u32 = OWN | TOKEN | WAKER;/'
planted "a signal that is forgotten, as another one ends the park" \
    's/let next = if ends { state \& SIGNALS }/let next = if ends { RUNNING }/'

plant_in umcg umcg/src/rt/rank.rs rank::
planted "a server that was called, and does not look who waits still" \
    's/if !called || !look_who_waits/if true || !look_who_waits/'
planted "a server that does not look at those that only it may run" \
    's/for only in \[Some(here.index()), None\]/for only in [None]/'
planted "a server that looks at those that only it may run" \
    's/for only in \[Some(here.index()), None\]/for only in [Some(here.index())]/'
planted "a server that does not choose again" \
    's/true => again = true,/true => {}/'
planted "a server that counts as running whoever has left" \
    '/fn leave/,/^    }/ s/self.runs.store(NOBODY, Relaxed);//'
planted "a server that forgets with its rest that it was called" \
    '/fn rest/,/^    }/ s/fetch_max(ANYBODY, Relaxed)/store(NOBODY, Relaxed)/'
planted "a server that takes the calls before it says whom it runs" \
    '/fn begin/,/^    }/ { s/self.runs.store(rank, Relaxed);/let called = self.called.swap(NOBODY, AcqRel) != NOBODY; self.runs.store(rank, Relaxed); called/; s/^        self.called.swap.*$// }'
planted "a worker that is not preempted" \
    's/            preempt(server);/            let _ = \&mut preempt;/'
planted "a preemption that is not repeated" \
    '/fn is_overdue/,/^    }/ s/runs > self.called.load(Relaxed)/false/'

plant_in umcg umcg/src/rt/idle.rs idle::
planted "a server that does not look again before it sleeps" \
    's/if !has_work(local) {/if true {/'
planted "a server that does not say that it sleeps" \
    's/shared.sleepers.asleep.fetch_add(1, Relaxed);//; s/self.asleep.fetch_sub(1, Relaxed);//; s/shared.sleepers.asleep.fetch_sub(1, Relaxed);//'
planted "a server that looks again before it says that it sleeps" \
    's/    word.store(if in_driver { IN_DRIVER } else { ON_FUTEX }, Relaxed);/    let work = has_work(local);\n&/; s/if !has_work(local) {/if !work {/'
planted "a sleeper that is not woken" \
    's/let _ = futex::wake(word, Flags::PRIVATE, 1);//'
planted "a sleeper in the driver that is not woken" \
    's/shared.driver.wake();//'
planted "a sleeper that does not look whether its wake-up went to another" \
    's/|| word.load(Relaxed) == IN_DRIVER/|| true/'
planted "a search that does not end" \
    '/fn end_search/,/^    }/ s/self.searching.fetch_sub(1, [A-Za-z]*) == 1/true/'
planted "a searcher that leaves the rest to nobody" \
    's/if last \&\& shared.scheduler.has_work/if false \&\& shared.scheduler.has_work/'
planted "a server that was woken, and wakes no other" \
    's/hand_on(local);//'
planted "a server that sleeps past its deadline" \
    's/let until = local.timers().next();/let until = u64::MAX;/'

plant_in umcg umcg/src/rt/wait.rs semaphore:: event::
planted "a waiter that is claimed twice" \
    's/let is_claimed = self.claim.compare_exchange(WAITING, claim, Acquire, Relaxed).is_ok();/let is_claimed = true; self.claim.store(claim, Relaxed);/'
planted "a claimer that does not wait until the worker has left" \
    's/while task.left.load(Acquire) != LEFT {/while false {/'
planted "a worker that leaves without looking for a reason" \
    's/let revoked = waiter.revoke(&mut served);/let revoked = false;/'
planted "a waiter that goes on while somebody looks at it" \
    '/fn go_on(/,/^    }/ s/while task.interrupted.load(Acquire) {/while false {/'
planted "a reason that nobody looks at on leaving" \
    's/self.is_asked() || self.deadline.get() != u64::MAX/self.deadline.get() != u64::MAX/'
planted "a wait that is revoked without a reason" \
    '/fn has_reason(/,/^    }/ s/self.is_asked() || (deadline .*/true/'

plant_in umcg umcg/src/rt/places.rs semaphore:: event::
planted "an order that begins with the last" \
    's/        if was_empty || !in_front {/        if was_empty || in_front {/'

plant_in umcg umcg/src/rt/thread.rs semaphore:: event::
planted "a thread that is not woken" \
    's/let _ = futex::wake(.*);//'
planted "a thread that says that it sleeps, though it was served" \
    's/asleep.compare_exchange(AWAKE, ASLEEP, Relaxed, Acquire).is_err()/{ asleep.store(ASLEEP, Relaxed); false }/'
planted "a thread that is taken for awake while it falls asleep" \
    's/asleep.swap(SERVED, Release) == ASLEEP/{ let slept = asleep.load(Relaxed) == ASLEEP; asleep.store(SERVED, Release); slept }/'

plant_in umcg umcg/src/rt/thread.rs futex::
planted "a thread that sleeps before it looks for a reason" \
    's/if is_served() || (self.has_reason() .*{/if is_served() {/'

plant_in umcg umcg/src/sync/semaphore.rs semaphore::
planted "a wakeup that is saved though somebody waits" \
    's/let nobody_to_tell = .*;/let nobody_to_tell = true;/'
planted "a wakeup that who comes can take from who waits" \
    's/word \& CLOSED == 0 \&\& (word \& WAITERS == 0 || self.is_barging) \&\& word/word \& CLOSED == 0 \&\& word/; s/\*word -= wanted as u64 \& COUNT;//'
planted "a lock that two have" \
    's/(word \& LOCKED == 0 \&\& locks())/(locks())/'
planted "one that goes from the front, and leaves the others waiting" \
    '/    fn leave(&self/,/^    }/ s/if left {/if false {/'
planted "one that was told to try, and does not say that it has" \
    '/fn enter_or_try(&self/,/^    }/ s/word \&= !WOKEN;//'
planted "a wakeup for one who wants more" \
    's/wanted(first) == wakeups \&\& //'

plant_in umcg umcg/src/select/engine.rs semaphore::
planted "places that stay in queues" \
    's/source.leave(set.place(index), served);//'

plant_in umcg umcg/src/select/engine.rs waitable::
planted "a hint that is taken for the thing" \
    's/End::Served(index) if set.finish(index, set.place(index).note.get()) => /End::Served(index) if set.finish(index, set.place(index).note.get()) || true => /'

plant_in umcg umcg/src/select/engine.rs moments::
planted "nothing, by looking at one after the other" \
    's/if set.len() <= 1 {/if true {/; s/if deadline == LOOK \&\& set.len() <= 1 {/if deadline == LOOK {/'
planted "the lowest, by looking at one after the other" \
    's/if set.len() > 0 \&\& try_one(set, 0) {/if let Some(index) = scan(set, Order::in_turn(set.len())) { return Some(index); }\n        if false {/'
planted "who only looks, and loses what it is served" \
    's/enter(waiter, served) \&\& !waiter.claim_itself(set.len())/enter(waiter, served) \&\& { waiter.claim_itself(set.len()); false }/'

plant_in umcg umcg/src/rt/kept.rs moments::
planted "a set that only looks, and loses what it is served" \
    '/fn disarm/,/^    }/ s/self.claim.compare_exchange(WAITING, REVOKED, Relaxed, Relaxed).is_ok()/{ self.claim.store(REVOKED, Relaxed); true }/'

plant_in umcg umcg/src/select/custom.rs waitable::
planted "who enters though something was told since the look" \
    's/if waiters.told.load(Relaxed) == told {/if waiters.told.load(Relaxed) >= told {/'
planted "who took something, and waits without another look" \
    's/self.seen.set((!is_taken).then_some((waiters, told)));/self.seen.set(Some((waiters, told)));/'

plant_in umcg umcg/src/rt/kept.rs sets::
planted "a set that waits though it was passed over" \
    's/state \& PASSED == 0 \&\& self/self/'
planted "a set that is not told that it was passed over" \
    's/state | PASSED }/state }/'
planted "a set that waits from one step and looks in another" \
    's/self.claim.compare_exchange(state, WAITING, Release, Relaxed).is_ok()/{ self.claim.store(WAITING, Release); true }/'
planted "a set that is passed over though it waits by now" \
    's/let to = if state == WAITING { claim } else { state | PASSED };/let to = state | PASSED;/'

plant_in umcg umcg/src/select/set.rs sets::
planted "a set that was passed over, and does not enter anew" \
    '/fn look_anew/,/^    }/ s/self.leave_all();//'
planted "a set that ends in its queues" \
    '/Drop for Set/,/^}/ s/self.kept().leave_all();//'

plant_in umcg umcg/src/futex/table.rs futex::
planted "a word that is compared before its lock" \
    '/fn enter_if/,/^    }/ { s/let places = self.lock(stand.address.load(Relaxed));/let is_expected = word.load(Relaxed) == expected; &/; s/^ *let is_expected = word.load(Relaxed) == expected;$// }'
planted "a waiter that is moved, and keeps its address" \
    's/Stand::of(place).address.store(at_to, Relaxed);//'
planted "two locks in any order" \
    's/let before = order.is_gt().then.*;/let before: Option<SpinGuard<_>> = None;/; s/order.is_lt().then/order.is_ne().then/'
planted "a place of many that is not put back" \
    's/unsafe { self.of_many.push(place, false) };//'

plant_in umcg umcg/src/futex/many.rs futex::
planted "one that is passed over while it sits down" \
    's/                SITTING => {/                u32::MAX => {/'
planted "one that is cut short though it was woken" \
    's/let is_mine = self.word.compare_exchange(STANDING, IDLE, Acquire, Relaxed).is_ok();/let is_mine = self.word.swap(IDLE, Acquire) != 77;/'

plant_in umcg umcg/src/futex/set.rs futex::
planted "words that are compared before the waiter can be claimed" \
    '/^fn wait_for/,/^}/ s/many.arm();//; /fn wait_armed/,/^}/ { s/many.wait(REASON/many.arm(); &/; s/many.disarm().map_or(End::Changed(index), End::Woken)/End::Changed(index)/ }'

plant_in umcg umcg/src/sync/mutex.rs mutex::
planted "a mutex that becomes free, and nobody is told" \
    's/word \& JOINT == 0 \&\& (word \& WAITERS == 0 || word \& WOKEN != 0)/word \& JOINT == 0/'
planted "one that was told to try, and does not say that it has" \
    '/fn enter(&self/,/^    }/ s/word \&= !WOKEN;//'
planted "a mutex that two have" \
    's/(word & HELD == 0).then_some(word | HELD)/Some(word | HELD)/'

plant_in umcg umcg/src/sync/rwlock.rs rwlock::
planted "a writer that goes, and leaves the readers behind it waiting" \
    '/    fn leave(&self/,/^    }/ s/let word = self.serve(word, served);/let _ = served;/'
planted "the last reader, who does not look whether somebody waits" \
    's/let is_last = |word: u64| .*;/let is_last = |_: u64| false;/'
planted "who upgrades while others read" \
    's/Want::Upgrade => (word & READERS == 0).then_some/Want::Upgrade => (word \& WRITER == 0).then_some/'

plant_in umcg umcg/src/sync/event.rs event::
planted "an event that lets two through" \
    's/if word & MANUAL == 0 { word & !SET } else { word }/word/'
planted "an event that is set though somebody waits" \
    's/(word & (WAITERS | JOINT) == 0).then_some(word | SET)/Some(word | SET)/'

plant_in umcg umcg/src/sync/condvar.rs condvar::
planted "one that unlocks before it waits" \
    '/unsafe fn wait_raw/,/^    }/ { s/let served = last::after_unwinding/wait::undisturbed(|served| unsafe { mutex.unlock_by(served) });\n        &/; s/unsafe { mutex.unlock_by(served) };$/let _ = \&served;/ }'
planted "a wait that unwinds, and has not the mutex" \
    '/unsafe fn wait_raw/,/^    }/ { s/|()| mutex.lock());/|()| ());/ }'

plant_in umcg umcg/src/sync/once.rs meetings::
planted "a turn that is passed on, and whose next does not go on" \
    's/Some(next) => served.push(next),/Some(next) => drop(next),/'
planted "two that do what is done once" \
    's/NEW if what == TURN => {/NEW | RUNNING if what == TURN => {/'

plant_in umcg umcg/src/sync/barrier.rs meetings::
planted "who is late, and has come all the same" \
    's/waiting.count -= u32::from(left);//'

plant_in umcg umcg/src/sync/wait_group.rs meetings::
planted "the last thing that is done, and nobody is told" \
    's/word \& COUNT > u64::from(word \& WAITERS != 0)/word \& COUNT > 0/'

plant_in umcg umcg/src/sync/joint.rs joint::
planted "a joint wait that takes from some" \
    's/self.unlock_first(index + 1, locked, false);/self.unlock_first(index, locked, true); member.object.unlock(member.word.get());/'
planted "who gives without looking after those who want all" \
    's/if word & JOINT == 0 { (word, None) } else { lock_to_give_slow(object, word) }/if true { (word, None) } else { lock_to_give_slow(object, word) }/'

plant_in umcg umcg/src/tube/core.rs tubes::
planted "a message that overtakes in the ring" \
    's/if word & (LOCKED | RECEIVERS |/if word \& (LOCKED |/'
planted "room that nobody is told of" \
    '/unsafe fn take_first/,/^    }/ s/locked.refill()/None::<Claimed>/'
planted "a lock that two have" \
    's/(word & LOCKED == 0 && locks())/(locks())/'

plant_in umcg umcg/src/tube/slots.rs tubes::
planted "a place that is read before it is filled" \
    's/while !self.slots\[slot\].is_filled.load(Acquire) {/while false {/'
planted "a message that is committed before one that came back" \
    's/locked.push_behind_those_put_back(from)/locked.push(from)/'
planted "a place that is given back, and nobody is told" \
    '/fn release(/,/^    }/ s/if locked.word & SENDERS != 0 { locked.claim_sender() } else { None }/None::<crate::rt::wait::Claimed>/'

plant_in umcg umcg/src/nt/object.rs nt_objects::
planted "an object that is given though somebody waits for it" \
    's/if word \& (WAITERS | JOINT) == 0 { step(word) }/if word \& LOW < u64::MAX { step(word) }/'
planted "a pulse that stays" \
    's/self.word.unlock(word \& !back);/self.word.unlock(word);/'
planted "a mutex that was abandoned, to all that follow" \
    's/((word \& !ABANDONED) + ONE_DEEPER)/(word + ONE_DEEPER)/'
planted "waits of one owner, of which one is served" \
    's/^                word = self.deliver(word, claimed, served);/&\n                break;/'

plant_in umcg umcg/src/nt/wait.rs nt_objects::
planted "any, by trying one after the other" \
    's/^        if self.objects.len() < FEW {/        if let Some(index) = self.objects.iter().position(|object| object.object().try_take(self.owner).is_some()) {\n            return Ok(woken(index, 0));\n        }\n&/'
planted "an alert that is taken with the objects" \
    '/    fn enter_alert/,/^    }/ s/is_mine = waiter.claim_itself(index);/is_mine = true; waiter.claim_itself(index);/'
planted "who only looks, and loses what it is served" \
    's/enter(waiter, served) && !waiter.claim_itself(self.nothing())/enter(waiter, served) \&\& { waiter.claim_itself(self.nothing()); false }/'

plant_in umcg umcg/src/tube/core.rs tubes::
planted "room that the first sender in the queue does not get" \
    '/fn take_first/,/^    }/ s/if let Some(sender) = locked.refill() {/if let Some(sender) = None::<Claimed> {/'
planted "a message that came back, and is taken away by a close" \
    's/claim_where(|place| !place.is_of_nobody())/claim_first()/'

plant_in umcg umcg/src/tube/standing.rs tubes::
planted "a future that is served, and nobody calls" \
    's/^        locked.word |= CALLS;//'
planted "a future that goes while it is being served" \
    '/fn leave_or_be_served/,/^    }/ s/give_way();/return Some(shared.core.lock());/'
planted "a message that is lost with a future" \
    's/if !has_message {/if true {/'
planted "messages that come back in another order" \
    's/shared.calls.rotate(standing);//'
planted "messages that come back while a later one is on its way" \
    's/ || shared.nobody_is_being_served()/ || true/'

plant_in umcg umcg/src/tube/operation.rs tubes::
planted "a future that is served by who selects, and nobody calls" \
    '/^    fn finish(&self, note: usize) -> bool {/,/^    }/ { s/self.shared.operate(|_| {/(|| {/; s/^        })$/        })()/ }'

plant_in umcg umcg/src/segment/queue.rs segment::
planted "what a dead one was given, and nobody gets" \
    '/fn leave/,/^    }/ s/self.untake(queue, record.want().load(Relaxed));//'
planted "who leaves a segment's queue, and does not serve those behind" \
    '/fn leave/,/^    }/ s/self.serve(queue)$/Ok(())/'
planted "a wakeup for somebody whose wait has ended" \
    's/if self.claim(record, is_given)? {/if self.claim(record, is_given)? || true {/'
planted "a promise that is not counted" \
    's/Kind::Tube(_) => self.promise(queue, 1),/Kind::Tube(_) => {}/'

plant_in umcg umcg/src/segment/patrol.rs segment::
planted "a lock that nobody takes from the dead" \
    's/objects().for_each(|object| object.condemn_if_held_by(dead));/let _ = objects;/'
planted "the burial of somebody who lives" \
    's/if party.liveness.try_lock(other) {/if party.liveness.try_lock(other) || true {/'

plant_in umcg umcg/src/segment/standing.rs segment::
planted "a waiter that looks after nobody" \
    's/self.shared.patrol(self.party);//'
planted "a waiter that sleeps until it is woken" \
    's/let until = deadline.min(now.saturating_add(self.shared.interval(self.party)));/let until = deadline;/'

plant_in umcg umcg/src/segment/shared.rs segment::
planted "a party whose predecessor was not buried" \
    's/if mark.load(Relaxed) == 0 || self.bury(number, number + 1) {/if true {/'

plant_in umcg umcg/src/segment/object.rs segment::
planted "a lock without a name on it" \
    's/let taken = word | (u64::from(holder) << 48);/let taken = word | (0xffff << 48);/'

plant_in loom umcg/src/rt/wait.rs semaphore::
planted "a worker that leaves, and does not say what it left" \
    's/task.left.store(LEFT, Release)/task.left.store(LEFT, Relaxed)/'
planted "a claimer that runs a worker, and does not see what that one left" \
    's/while task.left.load(Acquire) != LEFT/while task.left.load(Relaxed) != LEFT/'
planted "a waiter that is seen in parts" \
    's/cast_mut(), Release);/cast_mut(), Relaxed);/'
planted "a waiter that goes on while somebody may still look" \
    's/task.interrupted.store(false, Release)/task.interrupted.store(false, Relaxed)/'
planted "a worker that leaves without a fence before it looks for a reason" \
    '/^fn left(/,/^}/ s/light();//'

plant_in loom umcg/src/rt/thread.rs semaphore::
planted "a thread that is told that it was served, and not of what" \
    's/asleep.store(SERVED, Release)/asleep.store(SERVED, Relaxed)/'
planted "a thread that was served, and does not see with what" \
    's/asleep.load(Acquire) == SERVED/asleep.load(Relaxed) == SERVED/'

plant_in loom umcg/src/sync/semaphore.rs semaphore::
planted "a semaphore's lock that does not pass its queue on" \
    's/self.word.store(word, Release)/self.word.store(word, Relaxed)/'
planted "a wakeup that says nothing of what was before" \
    's/compare_exchange(from, from + 1, Release/compare_exchange(from, from + 1, Relaxed/'

plant_in loom umcg/src/sync/word.rs locks::
planted "an unlock that does not release" \
    's/compare_exchange(from, to, Release/compare_exchange(from, to, Relaxed/'
planted "a look at an event that does not acquire" \
    's/self.0.load(Acquire)/self.0.load(Relaxed)/'

plant_in loom umcg/src/rt/rank.rs rank::
planted "a server that leaves without a fence" \
    '/fn leave/,/^    }/ s/fence(SeqCst);//'
planted "a caller without a fence" \
    '/^pub(crate) fn call/,/^}/ s/fence(SeqCst);//'
planted "a caller that does not see whom the server runs by now" \
    's/fetch_min(rank, Acquire)/fetch_min(rank, Relaxed)/'
planted "a server that does not see for whom it was called" \
    's/self.called.swap(NOBODY, AcqRel)/self.called.swap(NOBODY, Release)/'
planted "a server that does not say whom it runs to who calls later" \
    's/self.called.swap(NOBODY, AcqRel)/self.called.swap(NOBODY, Acquire)/'

plant_in loom umcg/src/rt/park.rs park::
planted "an unpark that says nothing of what was before" \
    's/compare_exchange(state, next, AcqRel, Relaxed)/compare_exchange(state, next, Acquire, Relaxed)/'

plant_in loom umcg/src/sync/once.rs locks::
planted "what is done once, and not seen" \
    's/self.state.store(DONE, Release)/self.state.store(DONE, Relaxed)/'

plant_in loom umcg/src/rt/kept.rs sets::
planted "a set whose wait is claimed before it is seen" \
    's/compare_exchange(state, WAITING, Release/compare_exchange(state, WAITING, Relaxed/'

plant_in loom umcg/src/tube/core.rs tubes::
planted "a message that is received before it is seen" \
    's/self.word.store(word + ONE, Release)/self.word.store(word + ONE, Relaxed)/'

plant_in loom umcg/src/futex/many.rs futexes::
planted "one that stands at many words, and is not seen" \
    's/self.word.store(STANDING, Release)/self.word.store(STANDING, Relaxed)/'

with_loom cargo test --quiet --package umcg --test loom --no-run
with_shuttle cargo test --quiet --package umcg --package umcg-core --test model --no-run
try_all

say "the sources as they are"
with_loom cargo test --quiet --package umcg --test loom
for package in umcg-core umcg; do
    UMCG_MODEL_RUNS=$runs with_shuttle timeout --kill-after=5 900 \
        cargo test --quiet --package $package --test model --release
done
