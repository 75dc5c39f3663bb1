// The Go side of `umcg bench sem | tube | select`: does one piece of work, and prints its findings
// on standard output.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

type request struct {
	Bench  string         `json:"bench"`
	Work   string         `json:"work"`
	Params map[string]any `json:"params"`
	Nanos  uint64         `json:"nanos"`
	Times  uint64         `json:"times"`
}

type spread struct {
	Quantiles []float64 `json:"quantiles"`
	Mean      float64   `json:"mean"`
	Samples   int       `json:"samples"`
}

type answer struct {
	Values []float64 `json:"values"`
	Spread *spread   `json:"spread"`
}

func (r request) number(key string) int {
	value, _ := r.Params[key].(float64)
	return int(value)
}

func (r request) budget() time.Duration {
	return time.Duration(r.Nanos)
}

func main() {
	var wanted request
	if len(os.Args) != 2 || json.Unmarshal([]byte(os.Args[1]), &wanted) != nil {
		fail("no request")
	}
	runtime.GOMAXPROCS(max(wanted.number("cpus"), 1))
	text, err := json.Marshal(work(wanted))
	if err != nil {
		fail(err)
	}
	fmt.Println(string(text))
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

func work(wanted request) answer {
	switch wanted.Work {
	case "uncontended":
		return uncontended(wanted)
	case "contended":
		return contended(wanted)
	case "hand_over":
		return handOver(wanted)
	case "round":
		return rounds(wanted)
	case "throughput":
		return throughput(wanted)
	case "ready":
		return ready(wanted)
	case "blocking":
		return blocking(wanted)
	}
	fail("unknown work: " + wanted.Work)
	return answer{}
}

// measure does as harness::measure: nanoseconds an operation.
func measure(budget time.Duration, batch func(uint64)) float64 {
	size := uint64(1)
	for size < 1<<24 {
		start := time.Now()
		batch(size)
		if time.Since(start) >= 50*time.Microsecond {
			break
		}
		size *= 2
	}
	operations := uint64(0)
	start := time.Now()
	for {
		batch(size)
		operations += size
		if elapsed := time.Since(start); elapsed >= budget {
			return float64(elapsed.Nanoseconds()) / float64(operations)
		}
	}
}

func one(value float64) answer {
	return answer{Values: []float64{value}}
}

// spreadOf does as harness::Spread::of.
func spreadOf(values []float64) *spread {
	const steps = 200
	sort.Float64s(values)
	last := len(values) - 1
	all := &spread{Samples: len(values)}
	for _, value := range values {
		all.Mean += value / float64(len(values))
	}
	for step := 0; step <= steps; step++ {
		all.Quantiles = append(all.Quantiles, values[(step*last+steps/2)/steps])
	}
	return all
}

// A semaphore is a channel with room for one: the sender has it, the receiver gives it back.
type semaphore chan struct{}

func uncontended(wanted request) answer {
	lock := make(semaphore, 1)
	return one(measure(wanted.budget(), func(n uint64) {
		for range n {
			lock <- struct{}{}
			<-lock
		}
	}))
}

// contended does as sem.rs.
func contended(wanted request) answer {
	const clock = 64
	workers := wanted.number("workers")
	lock := make(semaphore, 1)
	lock <- struct{}{}
	var there, isOver atomic.Int64
	var counter, count uint64
	var took time.Duration
	var start time.Time
	each := make([]uint64, workers)
	var all sync.WaitGroup
	all.Add(workers)
	for worker := range workers {
		go func() {
			there.Add(1)
			turns := uint64(0)
			for more := true; more; {
				lock <- struct{}{}
				turns++
				counter++
				if counter%clock == 0 && isOver.Load() == 0 {
					if elapsed := time.Since(start); elapsed >= wanted.budget() {
						count, took = counter, elapsed
						isOver.Store(1)
					}
				}
				more = isOver.Load() == 0
				<-lock
			}
			each[worker] = turns
			all.Done()
		}()
	}
	for there.Load() < int64(workers) {
		time.Sleep(200 * time.Microsecond)
	}
	time.Sleep(time.Millisecond)
	start = time.Now()
	<-lock
	all.Wait()
	sum, least, most := uint64(0), each[0], each[0]
	for _, turns := range each {
		sum += turns
		least, most = min(least, turns), max(most, turns)
	}
	if sum != counter {
		fail("increments were lost")
	}
	nanos := float64(took.Nanoseconds()) / float64(count)
	return answer{Values: []float64{nanos, float64(least) / float64(most)}}
}

func handOver(wanted request) answer {
	here, there := make(semaphore, 1), make(semaphore, 1)
	go func() {
		for range there {
			here <- struct{}{}
		}
	}()
	return one(measure(wanted.budget(), func(n uint64) {
		for range n {
			there <- struct{}{}
			<-here
		}
	}))
}

const batch = 32

// order does as choice.rs.
type order struct {
	state uint32
	count int
}

func orderOf(count int) *order {
	return &order{2463534242, count}
}

func (o *order) next() int {
	o.state ^= o.state << 13
	o.state ^= o.state >> 17
	o.state ^= o.state << 5
	return int(uint64(o.state) * uint64(o.count) >> 32)
}

func channels(count int) []chan int {
	all := make([]chan int, count)
	for i := range all {
		all[i] = make(chan int, batch)
	}
	return all
}

// taker returns the function that takes from one of the channels: a select statement, or the
// package reflect where there are more than one writes out.
func taker(all []chan int) func() int {
	switch len(all) {
	case 2:
		a, b := all[0], all[1]
		return func() int {
			select {
			case value := <-a:
				return value
			case value := <-b:
				return value
			}
		}
	case 10:
		c := [10]chan int(all)
		return func() int {
			select {
			case value := <-c[0]:
				return value
			case value := <-c[1]:
				return value
			case value := <-c[2]:
				return value
			case value := <-c[3]:
				return value
			case value := <-c[4]:
				return value
			case value := <-c[5]:
				return value
			case value := <-c[6]:
				return value
			case value := <-c[7]:
				return value
			case value := <-c[8]:
				return value
			case value := <-c[9]:
				return value
			}
		}
	}
	cases := make([]reflect.SelectCase, len(all))
	for i, channel := range all {
		cases[i] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(channel)}
	}
	return func() int {
		_, value, _ := reflect.Select(cases)
		return int(value.Int())
	}
}

func ready(wanted request) answer {
	all := channels(wanted.number("k"))
	take, indices := taker(all), orderOf(len(all))
	var took time.Duration
	count := 0
	for start, warm := time.Now(), false; !warm || count == 0 || time.Since(start) < wanted.budget(); {
		index := indices.next()
		for range batch {
			all[index] <- index
		}
		began := time.Now()
		for range batch {
			if take() != index {
				fail("something was taken that was not there")
			}
		}
		if warm {
			took += time.Since(began)
			count += batch
		}
		warm = warm || time.Since(start) >= wanted.budget()/8
	}
	return one(float64(took.Nanoseconds()) / float64(count))
}

func blocking(wanted request) answer {
	here, there := channels(wanted.number("k")), channels(wanted.number("k"))
	go func() {
		for take := taker(there); ; {
			index := take()
			here[index] <- index
		}
	}()
	take, indices := taker(here), orderOf(len(here))
	return one(measure(wanted.budget(), func(n uint64) {
		for range n {
			index := indices.next()
			there[index] <- index
			if take() != index {
				fail("an answer came by the wrong one")
			}
		}
	}))
}

const capacity = 32

// message has the number of the message first.
type message interface {
	[1]uint64 | [4]uint64 | [8]uint64 | [64]uint64 | [512]uint64
}

func rounds(wanted request) answer {
	switch wanted.number("size") {
	case 8:
		return roundsOf(wanted, func(m *[1]uint64) *uint64 { return &m[0] })
	case 32:
		return roundsOf(wanted, func(m *[4]uint64) *uint64 { return &m[0] })
	case 64:
		return roundsOf(wanted, func(m *[8]uint64) *uint64 { return &m[0] })
	case 512:
		return roundsOf(wanted, func(m *[64]uint64) *uint64 { return &m[0] })
	case 4096:
		return roundsOf(wanted, func(m *[512]uint64) *uint64 { return &m[0] })
	}
	fail("unknown size")
	return answer{}
}

// roundsOf does as tube.rs.
func roundsOf[M message](wanted request, number func(*M) *uint64) answer {
	pongers := wanted.number("pongers")
	pings, pongs := make(chan M, capacity), make(chan M, capacity)
	var all sync.WaitGroup
	all.Add(pongers)
	for range pongers {
		go func() {
			for ping := range pings {
				pongs <- ping
			}
			all.Done()
		}()
	}
	var next, balance uint64
	var ping M
	send := func() {
		next++
		*number(&ping) = next
		balance += next
		pings <- ping
	}
	receive := func() {
		pong := <-pongs
		balance -= *number(&pong)
	}
	for range pongers {
		send()
	}
	nanos := measure(wanted.budget(), func(n uint64) {
		for range n {
			receive()
			send()
		}
	})
	each := make([]float64, 0, wanted.Times)
	for range wanted.Times {
		start := time.Now()
		receive()
		send()
		each = append(each, float64(time.Since(start).Nanoseconds()))
	}
	for range pongers {
		receive()
	}
	close(pings)
	all.Wait()
	if balance != 0 {
		fail("not what was sent came back")
	}
	found := spreadOf(each)
	return answer{Values: []float64{nanos, found.Quantiles[len(found.Quantiles)/2]}, Spread: found}
}

// throughput does as tube.rs.
func throughput(wanted request) answer {
	const clock = 256
	producers, consumers := wanted.number("producers"), wanted.number("consumers")
	messages := make(chan uint64, capacity)
	var producing, consuming sync.WaitGroup
	var sent, received, sum atomic.Uint64
	producing.Add(producers)
	consuming.Add(consumers)
	start := time.Now()
	for range producers {
		go func() {
			count := uint64(0)
			for count == 0 || count%clock != 0 || time.Since(start) < wanted.budget() {
				count++
				messages <- count
			}
			sent.Add(count)
			sum.Add(count * (count + 1) / 2)
			producing.Done()
		}()
	}
	for range consumers {
		go func() {
			count, total := uint64(0), uint64(0)
			for message := range messages {
				count++
				total += message
			}
			received.Add(count)
			sum.Add(-total)
			consuming.Done()
		}()
	}
	producing.Wait()
	close(messages)
	consuming.Wait()
	took := time.Since(start)
	if sent.Load() != received.Load() || sum.Load() != 0 {
		fail("messages were lost")
	}
	return one(float64(received.Load()) / took.Seconds())
}
