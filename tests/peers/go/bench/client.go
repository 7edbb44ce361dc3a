package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// orders are the fields of measure.Orders that concern a client without xDS.
type orders struct {
	Target      string
	Concurrency int
	Count       int
	Warmup      int
}

// answer is in microseconds per RPC. Procs is GOMAXPROCS, which is 1 for a client that has one core.
type answer struct {
	CPU   float64 `json:"cpu"`
	Wall  float64 `json:"wall"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Procs int     `json:"procs"`
}

func call(text string) {
	var ordered orders
	if err := json.Unmarshal([]byte(text), &ordered); err != nil {
		log.Fatal(err)
	}
	channel, err := grpc.NewClient(
		"passthrough:///"+ordered.Target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawBytes{})),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer channel.Close()

	payload := bytes.Repeat([]byte("x"), 100)
	unary := func(options ...grpc.CallOption) {
		var response []byte
		if err := channel.Invoke(context.Background(), method, &payload, &response, options...); err != nil {
			log.Fatal(err)
		}
	}
	unary(grpc.WaitForReady(true))

	everyone := func(total int) []time.Duration {
		latencies := make([][]time.Duration, ordered.Concurrency)
		var callers sync.WaitGroup
		for turn := range ordered.Concurrency {
			share := total / ordered.Concurrency
			if turn < total%ordered.Concurrency {
				share++
			}
			callers.Go(func() {
				for range share {
					began := time.Now()
					unary()
					latencies[turn] = append(latencies[turn], time.Since(began))
				}
			})
		}
		callers.Wait()
		return slices.Concat(latencies...)
	}
	everyone(ordered.Warmup)
	before, began := cpu(), time.Now()
	latencies := everyone(ordered.Count)
	wall, used := time.Since(began), cpu()-before

	slices.Sort(latencies)
	count := time.Duration(ordered.Count)
	found := answer{
		CPU:   float64(used) / 1e3 / float64(count),
		Wall:  float64(wall) / 1e3 / float64(count),
		P50:   float64(latencies[(len(latencies)-1)/2]) / 1e3,
		P99:   float64(latencies[(len(latencies)-1)*99/100]) / 1e3,
		Procs: runtime.GOMAXPROCS(0),
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}

// cpu is the user and system time of this process, all its threads.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
