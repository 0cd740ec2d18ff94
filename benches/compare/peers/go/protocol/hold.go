package protocol

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const atATime = 64

func (s *state) hold(words *words, output io.Writer) error {
	prefix, first, count := words.text(), words.number(), words.number()
	_, limit := words.millis(), words.millis()
	if err := s.prepare(words, 0, 1); err != nil {
		return err
	}
	begun := time.Now()
	var lock sync.Mutex
	err := atOnce(int(count), func(number int) error {
		if time.Since(begun) >= limit {
			return nil
		}
		hold, err := s.library.Keep(fmt.Sprintf("%s/%d", prefix, first+int64(number)))
		if err == nil {
			lock.Lock()
			s.held = append(s.held, hold)
			lock.Unlock()
		}
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprint(output, "held ", len(s.held))
	return nil
}

func (s *state) drop(output io.Writer) error {
	held := s.held
	s.held = nil
	if err := atOnce(len(held), func(number int) error { return held[number].Unlock() }); err != nil {
		return err
	}
	fmt.Fprint(output, "dropped")
	return nil
}

func atOnce(count int, do func(number int) error) error {
	group, ctx := errgroup.WithContext(context.Background())
	group.SetLimit(atATime)
	for number := 0; number < count && ctx.Err() == nil; number++ {
		group.Go(func() error { return do(number) })
	}
	return group.Wait()
}
