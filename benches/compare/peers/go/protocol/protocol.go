// Package protocol is the subjects' side of the benchmarks' protocol in Go. A subject implements
// Library, and its main calls Serve. benches/compare/README.md describes the protocol.
package protocol

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Handshake is the first line that a subject prints.
type Handshake struct {
	Name     string   `json:"name"`
	Library  string   `json:"library"`
	Runtime  string   `json:"runtime"`
	Backends []string `json:"backends"`
	Notes    []string `json:"notes"`
}

const TTL = 15 * time.Second

// Library is a connected lock library in its users' usual configuration. Its methods may be called
// concurrently.
type Library interface {
	Open(backend string, servers Servers) error
	// Prepare creates the resources of a task, once, before the measurement.
	Prepare(task int) error
	// Lock acquires a name, with the library's own wait. Concurrent calls have different tasks.
	Lock(task int, name string) (Hold, error)
	// Keep acquires an uncontended name and renews the hold until the release. Keep may use the
	// resources of task 0.
	Keep(name string) (Hold, error)
}

type Hold interface {
	// Unlock releases the lock, or returns ErrLost if the lock had expired.
	Unlock() error
}

var ErrLost = errors.New("the lock expired on the way")

// Servers has the arguments of the command `open` after the backend.
type Servers struct {
	// Hosts and ports.
	Addresses []string
	// The Sentinels' name of the master.
	Master string
}

// Serve runs a subject until its input ends. Serve adds the module's version to the handshake.
func Serve(handshake Handshake, module string, library Library) {
	handshake.Library = module + " " + version(module)
	handshake.Runtime = runtime.Version()
	line, err := json.Marshal(handshake)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))

	commands := make(chan string)
	go func() {
		input := bufio.NewReader(os.Stdin)
		for {
			line, err := input.ReadString('\n')
			if err != nil {
				// The subject exits without releasing locks.
				os.Exit(0)
			}
			commands <- line
		}
	}()
	state := state{library: library}
	output := bufio.NewWriter(os.Stdout)
	for command := range commands {
		if err := state.answer(strings.Fields(command), output); err != nil {
			fmt.Fprint(output, complaint(err))
		}
		output.WriteByte('\n')
		output.Flush()
	}
}

func version(module string) string {
	if built, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range built.Deps {
			if dependency.Path == module {
				return dependency.Version
			}
		}
	}
	panic(module + " isn't built in")
}

func complaint(err error) string {
	return "error " + strings.Join(strings.Fields(err.Error()), " ")
}

func Now() int64 {
	var time unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &time); err != nil {
		panic(err)
	}
	return time.Nano()
}

type state struct {
	library Library
	held    []Hold
	// The number of waiting tasks, whose numbers begin at 0. Contending tasks have higher ones.
	waiting int
}

func (s *state) answer(command []string, output io.Writer) error {
	words := &words{left: command}
	switch words.text() {
	case "open":
		return s.connect(words, output)
	case "pairs":
		return s.pairs(words, output)
	case "turns":
		return s.turns(words, output)
	case "hold":
		return s.hold(words, output)
	case "wait":
		return s.wait(words, output)
	case "drop":
		return s.drop(output)
	default:
		return fmt.Errorf("no such command: %q", command)
	}
}

func (s *state) connect(words *words, output io.Writer) error {
	backend := words.text()
	if words.err != nil {
		return words.err
	}
	var servers Servers
	for _, url := range words.left {
		if master, ok := strings.CutPrefix(url, "master="); ok {
			servers.Master = master
			continue
		}
		_, address, _ := strings.Cut(url, "://")
		servers.Addresses = append(servers.Addresses, strings.TrimSuffix(address, "/"))
	}
	if err := s.library.Open(backend, servers); err != nil {
		return err
	}
	fmt.Fprint(output, "ready")
	return nil
}

func (s *state) pairs(words *words, output io.Writer) error {
	name, _, limit := words.text(), words.millis(), words.millis()
	if err := s.prepare(words, 0, 1); err != nil {
		return err
	}
	var times []int64
	begun := Now()
	for end := begun + int64(limit); begun < end; {
		hold, err := s.library.Lock(0, name)
		if err != nil {
			return err
		}
		if err := hold.Unlock(); err != nil {
			return err
		}
		over := Now()
		times = append(times, over-begun)
		begun = over
	}
	fmt.Fprint(output, "pairs")
	for _, time := range times {
		fmt.Fprint(output, " ", time)
	}
	return nil
}

// Prepares tasks, numbered from first. Returns an error if the command was invalid.
func (s *state) prepare(words *words, first, tasks int) error {
	if words.err != nil {
		return words.err
	}
	return atOnce(tasks, func(task int) error { return s.library.Prepare(first + task) })
}

func (s *state) wait(words *words, output io.Writer) error {
	name, _, tasks := words.text(), words.millis(), words.number()
	if err := s.prepare(words, s.waiting, int(tasks)); err != nil {
		return err
	}
	asking := make(chan struct{})
	for task := range int(tasks) {
		go func(task int) {
			asking <- struct{}{}
			if _, err := s.library.Lock(task, name); err != nil {
				fmt.Fprintln(os.Stderr, complaint(err))
			} else {
				fmt.Fprintln(os.Stderr, "a waiter was granted what somebody else holds")
			}
		}(s.waiting + task)
	}
	s.waiting += int(tasks)
	for range tasks {
		<-asking
	}
	fmt.Fprint(output, "waiting")
	return nil
}

type words struct {
	left []string
	err  error
}

func (w *words) text() string {
	if len(w.left) == 0 {
		w.err = errors.Join(w.err, errors.New("the command is too short"))
		return ""
	}
	word := w.left[0]
	w.left = w.left[1:]
	return word
}

func (w *words) number() int64 {
	number, err := strconv.ParseInt(w.text(), 10, 64)
	w.err = errors.Join(w.err, err)
	return number
}

func (w *words) millis() time.Duration {
	return time.Duration(w.number()) * time.Millisecond
}
