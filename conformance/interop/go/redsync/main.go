// Drives redsync's own locks, for tests with Lockwright.
//
//	redsync ADDRESS...
//
// One address is one Redis, several are the nodes of a Redlock. src/peer.rs describes the commands.
// Without answers from a majority of nodes, the program answers "failed: " and the reason.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	node "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
)

// A time limit that only failures reach.
const limit = 20 * time.Second

func main() {
	var nodes []node.Pool
	for _, address := range os.Args[1:] {
		nodes = append(nodes, redigo.NewPool(connections(address)))
	}
	locks := locks{redsync.New(nodes...), map[string]*redsync.Mutex{}}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		fmt.Println(locks.answer(strings.Fields(commands.Text())))
	}
}

// Returns a pool with an open connection. redsync allows only a twentieth of a lock's TTL to
// connect, which is too little on a busy machine.
func connections(address string) *redis.Pool {
	pool := &redis.Pool{
		MaxIdle: 1,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", address,
				redis.DialReadTimeout(limit), redis.DialWriteTimeout(limit))
		},
	}
	// An error is ignored, because redsync itself reports a node that is down.
	_ = pool.Get().Close()
	return pool
}

type locks struct {
	nodes *redsync.Redsync
	taken map[string]*redsync.Mutex
}

func (l *locks) answer(command []string) string {
	switch {
	case is(command, "try", 3):
		// TryLock reports an unreachable node only if it makes a single try.
		mutex := l.nodes.NewMutex(command[1], expiry(command[2]), redsync.WithTries(1))
		return l.took(mutex, mutex.TryLock())
	case is(command, "wait", 4):
		ctx, cancel := context.WithTimeout(context.Background(), seconds(command[3]))
		defer cancel()
		mutex := l.nodes.NewMutex(command[1], expiry(command[2]), redsync.WithTries(math.MaxInt32),
			redsync.WithRetryDelay(10*time.Millisecond))
		return l.took(mutex, mutex.LockContext(ctx))
	case is(command, "extend", 3):
		value := redsync.WithValue(l.taken[command[1]].Value())
		ok, err := l.nodes.NewMutex(command[1], expiry(command[2]), value).Extend()
		return outcome(ok, err, "extended", "not ours")
	case is(command, "release", 2):
		ok, err := l.taken[command[1]].Unlock()
		return outcome(ok, err, "released", "not ours")
	default:
		return fmt.Sprintf("no such command: %q", command)
	}
}

func is(command []string, name string, words int) bool {
	return len(command) == words && command[0] == name
}

func (l *locks) took(mutex *redsync.Mutex, err error) string {
	if err == nil {
		l.taken[mutex.Name()] = mutex
	}
	return outcome(err == nil, err, "yes", "no")
}

// Returns yes if ok is true, else the failure if a node couldn't be reached, else no.
func outcome(ok bool, err error, yes string, no string) string {
	var failed *redsync.RedisError
	switch {
	case ok:
		return yes
	case errors.As(err, &failed):
		return "failed: " + strings.Join(strings.Fields(err.Error()), " ")
	default:
		return no
	}
}

func expiry(text string) redsync.Option {
	return redsync.WithExpiry(seconds(text))
}

func seconds(text string) time.Duration {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return time.Duration(number * float64(time.Second))
}
