// Round trips a second through a system's own Go library, in the arrangement of the lab: all requesters are in one
// process and share its connection, and the responder is a process of its own.
//
//	round_trips nats|redis HOST:PORT REQUESTERS SIZE WARM-UP SECONDS
//
// The responder is this program too, and ends with its standard input. The rate is the only output.
package main

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// ask sends a request and returns the size of its reply. Each requester has one request at a time.
type ask func(requester int, body []byte) (int, error)

// A system connects the requesters of a process, or a responder that returns the body of each request.
// respond returns when requests may come.
type system struct {
	connect func(address string, requesters int) (ask, error)
	respond func(address string, requesters int) error
}

var systems = map[string]system{"nats": {connectNats, respondNats}, "redis": {connectRedis, respondRedis}}

const respondArgument = "respond"

func main() {
	log.SetFlags(0)
	arguments := os.Args[1:]
	if len(arguments) == 4 && arguments[0] == respondArgument {
		check(systems[arguments[1]].respond(arguments[2], whole(arguments[3])))
		fmt.Println("ready")
		_, err := io.Copy(io.Discard, os.Stdin)
		check(err)
		return
	}
	if len(arguments) != 6 || systems[arguments[0]].connect == nil {
		log.Fatal("usage: round_trips nats|redis HOST:PORT REQUESTERS SIZE WARM-UP SECONDS")
	}
	name, address, requesters := arguments[0], arguments[1], whole(arguments[2])
	endResponder, err := startResponder(name, address, arguments[2])
	check(err)
	request, err := systems[name].connect(address, requesters)
	check(err)
	rate := measure(request, requesters, whole(arguments[3]), seconds(arguments[4]), seconds(arguments[5]))
	check(endResponder())
	fmt.Printf("%.1f\n", rate)
}

// startResponder returns once it is ready, with the function that ends it.
func startResponder(name, address, requesters string) (func() error, error) {
	process := exec.Command(os.Args[0], respondArgument, name, address, requesters)
	process.Stderr = os.Stderr
	input, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		return nil, fmt.Errorf("the responder is not ready: %w", err)
	}
	return func() error {
		if err := input.Close(); err != nil {
			return err
		}
		return process.Wait()
	}, nil
}

// measure returns the round trips a second that end after the warm-up.
func measure(request ask, requesters, size int, warmUp, measured time.Duration) float64 {
	body := make([]byte, size)
	begin := time.Now().Add(warmUp)
	end := begin.Add(measured)
	var counted atomic.Int64
	var all sync.WaitGroup
	for requester := range requesters {
		all.Go(func() {
			for {
				received, err := request(requester, body)
				check(err)
				if received != size {
					log.Fatalf("a reply has %d bytes, not %d", received, size)
				}
				now := time.Now()
				if now.After(end) {
					return
				}
				if now.After(begin) {
					counted.Add(1)
				}
			}
		})
	}
	all.Wait()
	return float64(counted.Load()) / measured.Seconds()
}

func whole(text string) int {
	number, err := strconv.Atoi(text)
	check(err)
	return number
}

func seconds(text string) time.Duration {
	number, err := strconv.ParseFloat(text, 64)
	check(err)
	return time.Duration(number * float64(time.Second))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
