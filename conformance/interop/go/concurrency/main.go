// Drives the mutex of etcd's own Go client, for tests with Lockwright.
//
//	concurrency TTL ENDPOINT,...
//
// The program has one session, whose lease of TTL seconds the client renews. src/peer.rs describes
// the commands. A name is the prefix of the lock's keys, without the final slash.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// A time limit that only failures reach.
const limit = 20 * time.Second

func main() {
	ttl, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(os.Args[2], ","), DialTimeout: limit})
	if err != nil {
		panic(err)
	}
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	if err != nil {
		panic(err)
	}
	locks := locks{session, map[string]*concurrency.Mutex{}}
	commands := make(chan string)
	go func() {
		for command := range commands {
			fmt.Println(locks.answer(strings.Fields(command)))
		}
	}()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		commands <- lines.Text()
	}
}

type locks struct {
	session *concurrency.Session
	taken   map[string]*concurrency.Mutex
}

func (l *locks) answer(command []string) string {
	if len(command) != 2 {
		return fmt.Sprintf("no such command: %q", command)
	}
	name := command[1]
	switch command[0] {
	case "try":
		mutex := concurrency.NewMutex(l.session, name)
		return l.took(name, mutex, mutex.TryLock(context.Background()))
	case "wait":
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			select {
			case <-l.session.Done():
				cancel()
			case <-ctx.Done():
			}
		}()
		mutex := concurrency.NewMutex(l.session, name)
		return l.took(name, mutex, mutex.Lock(ctx))
	case "release":
		err := l.taken[name].Unlock(context.Background())
		switch {
		case err != nil:
			return failed(err)
		case l.ended():
			return "not ours"
		default:
			return "released"
		}
	default:
		return fmt.Sprintf("no such command: %q", command)
	}
}

func (l *locks) took(name string, mutex *concurrency.Mutex, err error) string {
	switch {
	case err == nil:
		l.taken[name] = mutex
		return "yes"
	case errors.Is(err, concurrency.ErrLocked), errors.Is(err, concurrency.ErrSessionExpired), l.ended():
		return "no"
	default:
		return failed(err)
	}
}

// Returns whether the client has noticed the end of its session.
func (l *locks) ended() bool {
	select {
	case <-l.session.Done():
		return true
	default:
		return false
	}
}

func failed(err error) string {
	return "failed: " + strings.Join(strings.Fields(err.Error()), " ")
}
