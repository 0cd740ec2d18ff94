package protocol

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

type turn struct {
	asked, granted, released int64
	// The release reported that the lock had expired.
	lost bool
}

type contest struct {
	library    Library
	name       string
	start, end int64
	section    time.Duration
}

func (s *state) turns(words *words, output io.Writer) error {
	c := contest{library: s.library, name: words.text()}
	_, tasks := words.millis(), int(words.number())
	c.start, c.end = words.number(), words.number()
	c.section = time.Duration(words.number()) * time.Microsecond
	if err := s.prepare(words, s.waiting, tasks); err != nil {
		return err
	}
	turns, errs := make([][]turn, tasks), make([]error, tasks)
	var playing sync.WaitGroup
	for task := range tasks {
		playing.Go(func() { turns[task], errs[task] = c.play(s.waiting + task) })
	}
	playing.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprint(output, "turns")
	for task, turns := range turns {
		for _, turn := range turns {
			fmt.Fprintf(output, " %d:%d:%d:%d", task, turn.asked, turn.granted, turn.released)
			if turn.lost {
				fmt.Fprint(output, ":lost")
			}
		}
	}
	return nil
}

func (c contest) play(task int) ([]turn, error) {
	var turns []turn
	time.Sleep(time.Duration(c.start - Now()))
	for {
		asked := Now()
		if asked >= c.end {
			return turns, nil
		}
		hold, err := c.library.Lock(task, c.name)
		if err != nil {
			return nil, err
		}
		granted := Now()
		if c.section > 0 {
			time.Sleep(c.section)
		}
		released := Now()
		err = hold.Unlock()
		if err != nil && !errors.Is(err, ErrLost) {
			return nil, err
		}
		turns = append(turns, turn{asked, granted, released, err != nil})
	}
}
