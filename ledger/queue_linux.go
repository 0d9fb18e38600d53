package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// lookAgain is how long a waiter trusts that it would have been told.
const lookAgain = 10 * time.Second

// Tickets lists who waits, in the order of their numbers.
func (b *Book) Tickets() ([]Ticket, error) {
	names, err := b.names()
	if err != nil {
		return nil, err
	}
	tickets, _, _ := b.tickets(names)
	return tickets, nil
}

// tickets also tells the files they were read from, and the leftovers.
func (b *Book) tickets(names []string) (tickets []Ticket, files, dead []sheet) {
	dead = b.sheets(names, kindTicket, func(s sheet) {
		if t, err := decodeTicket(b.prefix, s.name, s.owner, s.text); err == nil {
			s.text = nil
			tickets, files = append(tickets, t), append(files, s)
		}
	})
	return tickets, files, dead
}

// A Place in the queue is kept until Leave or the death of this process.
type Place struct {
	Ticket  Ticket
	Warning error // a *BlockedError if it was taken without the registry lock

	b    *Book
	slip *slip

	mu    sync.Mutex // guards what follows
	ahead []sheet    // the files of the tickets before ours, in their order
}

// Enqueue takes the next number. The ticket is locked before anybody can see it.
// *UnusableError says that there can be no queue here.
func (b *Book) Enqueue(t Ticket) (*Place, error) {
	if err := errors.Join(checkTicket(t), checkOwner(t.UID)); err != nil {
		return nil, fmt.Errorf("ticket: %w", err)
	}
	registry, err := b.registry(context.Background())
	if err != nil {
		return nil, err
	}
	defer registry.open()
	names, err := b.names()
	if err != nil {
		return nil, err
	}
	alive, _, dead := b.tickets(names)
	if registry.warning == nil {
		b.sweep(names, dead, time.Now())
	}
	t.Number = b.nextNumber(names, alive)
	s, err := b.showTicket(&t)
	if err != nil {
		return nil, err
	}
	p := &Place{Ticket: t, Warning: registry.warning, b: b, slip: s}
	if p.ahead, err = b.before(t.Number); err != nil {
		s.drop()
		return nil, err
	}
	return p, nil
}

// nextNumber is the number to try first.
func (b *Book) nextNumber(names []string, alive []Ticket) int64 {
	var present []int64
	for _, name := range names {
		if digits, is := strings.CutPrefix(name, b.prefix+kindTicket); is {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n <= maxNumber {
				present = append(present, n)
			}
		}
	}
	slices.Sort(present)
	var first int64
	if len(alive) > 0 {
		first = alive[0].Number
	}
	return nextNumber(first, present)
}

// showTicket shows a ticket under its number, or the next one that is free.
func (b *Book) showTicket(t *Ticket) (*slip, error) {
	s, err := b.blank()
	if err != nil {
		return nil, err
	}
	for locked := false; ; t.Number++ {
		name := ticketName(b.prefix, t.Number)
		var text []byte
		if text, err = encode(ticketText{name, *t}); err != nil {
			err = fmt.Errorf("ticket: %w", err)
			break
		}
		if err = s.write(text); err != nil {
			break
		}
		if !locked {
			if err = s.lock(); err != nil {
				break
			}
			locked = true
		}
		if err = s.show(name); err != unix.EEXIST {
			break
		}
	}
	if err != nil {
		s.drop()
		return nil, err
	}
	return s, nil
}

// before lists the tickets with lower numbers. Since every new one gets a higher number
// than ours, they only become fewer; one that comes later with a lower number all the
// same was pushed in, and does not hold up those who wait already.
func (b *Book) before(number int64) ([]sheet, error) {
	names, err := b.names()
	if err != nil {
		return nil, err
	}
	tickets, files, _ := b.tickets(names)
	n, _ := slices.BinarySearchFunc(tickets, number, func(t Ticket, n int64) int { return cmp.Compare(t.Number, n) })
	return files[:n], nil
}

// Ahead counts the living tickets before ours.
func (p *Place) Ahead() (int, error) {
	return p.forget(func(sheet) bool { return true }), nil
}

// forget drops those tickets of the ones asked for that are gone, and counts the rest.
func (p *Place) forget(ask func(sheet) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead = slices.DeleteFunc(p.ahead, func(s sheet) bool {
		return ask(s) && !p.b.lives(s)
	})
	return len(p.ahead)
}

// Leave gives the place up. It may be called again.
func (p *Place) Leave() error {
	if err := p.slip.drop(); err != nil {
		return fmt.Errorf("ticket in %s: %w", p.b.path, err)
	}
	return nil
}

// Turn blocks until no living ticket is ahead, or ctx ends. moved, if not nil, is told how
// many are ahead, first and whenever that has changed. Nobody polls: the kernel tells
// of each file's end, and only that file is looked at then.
func (p *Place) Turn(ctx context.Context, moved func(ahead int)) error {
	w := newWatcher(p.b)
	defer w.close()
	for _, s := range p.waitingFor() {
		w.file(s.name)
	}
	told := -1
	ask := func(sheet) bool { return true }
	for {
		n := p.forget(ask)
		if n != told && moved != nil {
			moved(n)
		}
		told = n
		if n == 0 {
			return nil
		}
		ended, err := w.wait(ctx, lookAgain)
		if err != nil {
			return err
		}
		ask = p.suspects(ctx, ended)
	}
}

// waitingFor is a copy, for who looks at it without the lock.
func (p *Place) waitingFor() []sheet {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ahead)
}

// suspects tells which tickets to look at after some have ended: those, or all if it is
// not known which, or the one before ours if nothing happened for long.
func (p *Place) suspects(ctx context.Context, ended news) func(sheet) bool {
	if ended.unknown {
		return func(sheet) bool { return true }
	}
	ahead := p.waitingFor()
	for _, s := range ahead {
		if ended.files[s.name] {
			p.b.settle(ctx, s)
		}
	}
	if n := len(ahead); n > 0 && len(ended.files) == 0 {
		return func(s sheet) bool { return s.name == ahead[n-1].name }
	}
	return func(s sheet) bool { return ended.files[s.name] }
}
