// rueidislock, as a benchmark subject.
package main

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"lockwright/peers/protocol"
)

func main() {
	protocol.Serve(protocol.Handshake{
		Name:     "rueidislock",
		Backends: []string{"redis"},
		Notes: []string{
			"KeyMajority is 1, so that a lock is one key; the default of 2 takes three keys on the same server",
			"waiters are told by the server's invalidations for client-side caching, and ask only then",
			"it extends each lock at half of its validity, always",
		},
	}, "github.com/redis/rueidis", &library{lockers: map[time.Duration]rueidislock.Locker{}})
}

type library struct {
	option rueidis.ClientOption
	lock   sync.RWMutex
	// The lockers by TTL, because all locks of a locker have one TTL.
	lockers map[time.Duration]rueidislock.Locker
}

func (l *library) Open(backend string, servers protocol.Servers) error {
	if backend != "redis" {
		return protocol.Cannot("lock on " + backend)
	}
	l.option = rueidis.ClientOption{InitAddress: servers.Addresses}
	client, err := rueidis.NewClient(l.option)
	if err == nil {
		client.Close()
	}
	return err
}

func (l *library) Prepare(_ int, ttl time.Duration) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	if l.lockers[ttl] != nil {
		return nil
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: l.option,
		KeyValidity:  ttl,
		KeyMajority:  1,
	})
	if err == nil {
		l.lockers[ttl] = locker
	}
	return err
}

func (l *library) Lock(_ int, name string, ttl time.Duration) (protocol.Hold, error) {
	l.lock.RLock()
	locker := l.lockers[ttl]
	l.lock.RUnlock()
	held, release, err := locker.WithContext(context.Background(), name)
	if err != nil {
		return nil, err
	}
	return hold{held, release}, nil
}

func (l *library) Keep(name string, ttl time.Duration) (protocol.Hold, error) {
	return l.Lock(0, name, ttl)
}

type hold struct {
	held    context.Context
	release context.CancelFunc
}

func (h hold) Unlock() error {
	lost := h.held.Err() != nil
	h.release()
	if lost {
		return protocol.ErrLost
	}
	return nil
}
