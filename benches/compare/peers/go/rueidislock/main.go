// rueidislock, as a benchmark subject.
package main

import (
	"context"

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
	}, "github.com/redis/rueidis", &library{})
}

type library struct {
	locker rueidislock.Locker
}

func (l *library) Open(_ string, servers protocol.Servers) (err error) {
	l.locker, err = rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: servers.Addresses},
		KeyValidity:  protocol.TTL,
		KeyMajority:  1,
	})
	return err
}

func (l *library) Prepare(int) error { return nil }

func (l *library) Lock(_ int, name string) (protocol.Hold, error) {
	held, release, err := l.locker.WithContext(context.Background(), name)
	if err != nil {
		return nil, err
	}
	return hold{held, release}, nil
}

func (l *library) Keep(name string) (protocol.Hold, error) {
	return l.Lock(0, name)
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
