// redsync, as a benchmark subject.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-redsync/redsync/v4"
	node "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"lockwright/peers/protocol"
)

func main() {
	protocol.Serve(protocol.Handshake{
		Name:     "redsync",
		Backends: []string{"redis", "redlock-5", "redis-sentinel", "redis-cluster"},
		Notes: []string{
			"through go-redis; all options are the defaults but the expiry",
			"Lock gives up after 32 tries (about 5 s) and is then called again, as its documentation has it",
			"it doesn't keep locks alive: in `hold`, a goroutine for each calls Extend at each third of the TTL",
		},
	}, "github.com/go-redsync/redsync/v4", &library{})
}

type library struct {
	locks *redsync.Redsync
}

func (l *library) Open(backend string, servers protocol.Servers) error {
	var clients []redis.UniversalClient
	switch backend {
	case "redis-sentinel":
		clients = append(clients, redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName:    servers.Master,
			SentinelAddrs: servers.Addresses,
		}))
	case "redis-cluster":
		clients = append(clients, redis.NewClusterClient(&redis.ClusterOptions{Addrs: servers.Addresses}))
	default:
		for _, address := range servers.Addresses {
			clients = append(clients, redis.NewClient(&redis.Options{Addr: address}))
		}
	}
	var nodes []node.Pool
	for _, client := range clients {
		if err := client.Ping(context.Background()).Err(); err != nil {
			return err
		}
		nodes = append(nodes, goredis.NewPool(client))
	}
	l.locks = redsync.New(nodes...)
	return nil
}

func (l *library) Prepare(int) error { return nil }

func (l *library) Lock(_ int, name string) (protocol.Hold, error) {
	return l.lock(name)
}

func (l *library) lock(name string) (*hold, error) {
	mutex := l.locks.NewMutex(name, redsync.WithExpiry(protocol.TTL))
	for {
		err := mutex.Lock()
		if err == nil {
			return &hold{mutex}, nil
		}
		if !taken(err) {
			return nil, err
		}
	}
}

// Returns whether err means that other holders have the lock or votes, not that a node failed.
func taken(err error) bool {
	var failed *redsync.RedisError
	return !errors.As(err, &failed)
}

func (l *library) Keep(name string) (protocol.Hold, error) {
	lock, err := l.lock(name)
	if err != nil {
		return nil, err
	}
	kept := &kept{lock, make(chan struct{}), make(chan struct{})}
	go kept.keep(protocol.TTL / 3)
	return kept, nil
}

type hold struct {
	mutex *redsync.Mutex
}

func (h *hold) Unlock() error {
	ok, err := h.mutex.Unlock()
	var failed *redsync.RedisError
	switch {
	case ok:
		return nil
	case errors.As(err, &failed):
		return err
	default:
		return protocol.ErrLost
	}
}

type kept struct {
	*hold
	stop, stopped chan struct{}
}

func (k *kept) keep(each time.Duration) {
	defer close(k.stopped)
	ticker := time.NewTicker(each)
	defer ticker.Stop()
	for {
		select {
		case <-k.stop:
			return
		case <-ticker.C:
			ok, err := k.mutex.Extend()
			if !ok {
				fmt.Fprintf(os.Stderr, "%s isn't extended: %v\n", k.mutex.Name(), err)
			}
			if !ok && taken(err) {
				return
			}
		}
	}
}

func (k *kept) Unlock() error {
	close(k.stop)
	<-k.stopped
	return k.hold.Unlock()
}
