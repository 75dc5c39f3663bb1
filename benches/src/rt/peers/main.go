// The Go side of `umcg bench rt`: does one piece of work, says on standard output how long it took.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

type request struct {
	Servers int    `json:"servers"`
	Work    string `json:"work"`
	Size    uint64 `json:"size"`
	Nanos   uint64 `json:"nanos"`
}

type figures struct {
	Operations uint64 `json:"operations"`
	Nanos      uint64 `json:"nanos"`
	Before     uint64 `json:"before"`
	Peak       uint64 `json:"peak"`
}

func main() {
	var wanted request
	if len(os.Args) != 2 || json.Unmarshal([]byte(os.Args[1]), &wanted) != nil {
		fail("no request")
	}
	runtime.GOMAXPROCS(wanted.Servers)
	if wanted.Work == "serve" {
		serve(int(wanted.Size))
		return
	}
	before := status("VmRSS:")
	operations, took := work(wanted)
	found := figures{operations, uint64(took.Nanoseconds()), before, status("VmHWM:")}
	answer, _ := json.Marshal(found)
	fmt.Println(string(answer))
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}

// status returns a line of /proc/self/status in bytes.
func status(key string) uint64 {
	text, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(text), "\n") {
		if words := strings.Fields(line); len(words) > 1 && words[0] == key {
			kib, _ := strconv.ParseUint(words[1], 10, 64)
			return kib * 1024
		}
	}
	return 0
}

// work does as request.rs does.
func work(wanted request) (uint64, time.Duration) {
	budget := time.Duration(wanted.Nanos)
	size := wanted.Size
	switch wanted.Work {
	case "yield":
		workers := size * uint64(wanted.Servers)
		batch := func(each uint64) time.Duration { return yields(workers, each) }
		operations, took := measured(budget, 1, batch)
		return operations * workers, took
	case "ring":
		return measured(budget, size, func(hops uint64) time.Duration { return ring(int(size), hops) })
	case "spawn_join":
		return measured(budget, 1, spawnJoin)
	case "skynet":
		return repeated(budget, func() time.Duration { return skynet(size) })
	case "fib":
		return repeated(budget, func() time.Duration { return timedFib(size) })
	case "sleepers":
		return 1, sleepers(size, budget)
	}
	fail("unknown work: " + wanted.Work)
	return 0, 0
}

func measured(
	budget time.Duration, first uint64, batch func(uint64) time.Duration,
) (uint64, time.Duration) {
	size := first
	for batch(size) < budget/8 {
		size *= 4
	}
	var operations uint64
	var took time.Duration
	for took < budget/2 {
		took += batch(size)
		operations += size
	}
	return operations, took
}

func repeated(budget time.Duration, once func() time.Duration) (uint64, time.Duration) {
	once()
	var times uint64
	var took time.Duration
	for times == 0 || took < budget/2 {
		took += once()
		times++
	}
	return times, took
}

func yields(workers, each uint64) time.Duration {
	start := time.Now()
	var all sync.WaitGroup
	all.Add(int(workers))
	for range workers {
		go func() {
			for range each {
				runtime.Gosched()
			}
			all.Done()
		}()
	}
	all.Wait()
	return time.Since(start)
}

// ring sends a token round, which is the number of hops that are left. The first of them is the one
// into the ring.
func ring(workers int, hops uint64) time.Duration {
	places := make([]chan uint64, workers)
	for i := range places {
		places[i] = make(chan uint64)
	}
	done := make(chan time.Duration)
	var all sync.WaitGroup
	all.Add(workers)
	var start time.Time
	for i := range places {
		go func(here <-chan uint64, there chan<- uint64) {
			for token := range here {
				if token == 1 {
					done <- time.Since(start)
				} else {
					there <- token - 1
				}
			}
			all.Done()
		}(places[i], places[(i+1)%workers])
	}
	start = time.Now()
	places[0] <- hops
	took := <-done
	for _, place := range places {
		close(place)
	}
	all.Wait()
	return took
}

func spawnJoin(times uint64) time.Duration {
	start := time.Now()
	var one sync.WaitGroup
	for range times {
		one.Add(1)
		go one.Done()
		one.Wait()
	}
	return time.Since(start)
}

func skynet(leaves uint64) time.Duration {
	start := time.Now()
	result := make(chan uint64)
	go skynetNode(result, 0, leaves)
	sum := <-result
	took := time.Since(start)
	if sum != leaves*(leaves-1)/2 {
		fail("skynet came to a wrong sum")
	}
	return took
}

func skynetNode(result chan<- uint64, first, leaves uint64) {
	if leaves == 1 {
		result <- first
		return
	}
	children := make(chan uint64)
	leaves /= 10
	for i := range uint64(10) {
		go skynetNode(children, first+i*leaves, leaves)
	}
	var sum uint64
	for range 10 {
		sum += <-children
	}
	result <- sum
}

func sleepers(workers uint64, nap time.Duration) time.Duration {
	start := time.Now()
	var all sync.WaitGroup
	all.Add(int(workers))
	for range workers {
		go func() {
			time.Sleep(nap)
			all.Done()
		}()
	}
	all.Wait()
	return time.Since(start)
}

func timedFib(n uint64) time.Duration {
	start := time.Now()
	value := fib(n)
	took := time.Since(start)
	a, b := uint64(0), uint64(1)
	for range n {
		a, b = b, a+b
	}
	if value != a {
		fail("fib came to a wrong number")
	}
	return took
}

func fib(n uint64) uint64 {
	if n < 2 {
		return n
	}
	var other uint64
	var one sync.WaitGroup
	one.Add(1)
	go func() {
		other = fib(n - 1)
		one.Done()
	}()
	value := fib(n - 2)
	one.Wait()
	return value + other
}

var sink uint64

func compute(steps uint64) {
	x := uint64(88172645463325252)
	for range steps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	if x == 0 {
		sink = x
	}
}

// chunk returns how many steps take 20 ms.
func chunk() uint64 {
	const try = 1 << 20
	fastest := time.Hour
	for range 3 {
		start := time.Now()
		compute(try)
		fastest = min(fastest, time.Since(start))
	}
	return uint64(try * float64(20*time.Millisecond) / float64(fastest))
}

func serve(batch int) {
	steps := uint64(0)
	if batch > 0 {
		steps = chunk()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	for range batch {
		go func() {
			for {
				compute(steps)
				runtime.Gosched()
			}
		}()
	}
	fmt.Printf("{\"port\":%d}\n", listener.Addr().(*net.TCPAddr).Port)
	for {
		connection, err := listener.Accept()
		if err != nil {
			fail(err)
		}
		go echo(connection)
	}
}

func echo(connection net.Conn) {
	defer connection.Close()
	buffer := make([]byte, 1024)
	for {
		length, err := connection.Read(buffer)
		if err != nil {
			return
		}
		if _, err = connection.Write(buffer[:length]); err != nil {
			return
		}
	}
}
