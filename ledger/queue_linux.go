package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// recheckEvery is how long a waiter trusts that it would have been told.
const recheckEvery = 10 * time.Second

// Tickets lists who waits, in the order of their numbers. With a *LimitError it is not all
// there is.
func (d *Dir) Tickets() ([]Ticket, error) {
	l := d.newReader(nil)
	all, err := l.readTickets()
	tickets := make([]Ticket, 0, min(len(all), maxListedTotal))
	for _, w := range all[:min(len(all), maxListedTotal)] {
		tickets = append(tickets, w.Ticket)
	}
	return tickets, cmp.Or(err, l.readError)
}

// CountWaiting counts the tickets that a request without one has ahead: those whose user we have
// passed lately are none (TRUST-18). The first of the others is returned too.
func (d *Dir) CountWaiting() (n int, head Ticket, err error) {
	all, err := d.newReader(nil).readTickets()
	if all = d.withoutOvertaken(all); len(all) > 0 {
		head = all[0].Ticket
	}
	return len(all), head, err
}

func (d *Dir) withoutOvertaken(all []queuedTicket) []queuedTicket {
	if len(all) == 0 {
		return nil
	}
	n, now := d.readNotes(), time.Now()
	return slices.DeleteFunc(all, func(w queuedTicket) bool { return n.isOvertaken(w.Ticket, now) })
}

// A queuedTicket is a ticket and the file it was read from.
type queuedTicket struct {
	entry
	Ticket
}

// readTickets are all believable ones, in their order.
func (l *reader) readTickets() (all []queuedTicket, err error) {
	each := make(map[int]int)
	err = l.readKind(kindTicket, func(s entry) {
		if t, err := decodeTicket(s.base, s.uid, s.text); err == nil && each[s.uid] < maxListedPerUser {
			each[s.uid]++
			s.text = nil
			if s.uid != os.Geteuid() {
				t.User = l.d.accountName(s.uid)
			}
			all = append(all, queuedTicket{s, t})
		}
	})
	slices.SortFunc(all, func(a, d queuedTicket) int {
		return cmp.Or(cmp.Compare(a.Number, d.Number), cmp.Compare(a.path(), d.path()))
	})
	return all, err
}

// A QueuePlace is kept until Leave or the death of this process.
type QueuePlace struct {
	Ticket Ticket

	d    *Dir
	file *ownFile

	mu    sync.Mutex     // guards what follows
	ahead []queuedTicket // the tickets before ours, in their order
}

// Enqueue takes the next number. The ticket is locked before anybody can see it.
// *UnusableError says that there can be no queue here.
func (d *Dir) Enqueue(t Ticket) (*QueuePlace, error) {
	if err := errors.Join(checkTicket(t), checkOwner(t.UID)); err != nil {
		return nil, fmt.Errorf("ticket: %w", err)
	}
	l := d.newReader(nil)
	alive, err := l.readTickets()
	if err != nil {
		return nil, err
	}
	l.removeStale(time.Now())
	t.Number = nextTicketNumber(alive)
	for try := 1; ; try++ {
		s, err := d.showTicket(t)
		if err != nil {
			return nil, err
		}
		ahead, alone, err := d.ticketsBefore(t.Number, s.path())
		if err == nil && (alone || try == maxTicketTies) {
			return &QueuePlace{Ticket: t, d: d, file: s, ahead: ahead}, nil
		}
		s.remove()
		if err != nil {
			return nil, err
		}
		t.Number++
	}
}

// maxTicketTies is how often in a row others may take the same number at the same moment.
const maxTicketTies = 100

// nextTicketNumber is the number behind all that wait.
func nextTicketNumber(alive []queuedTicket) int64 {
	var present []int64
	for _, w := range alive {
		present = append(present, w.Number)
	}
	if len(present) == 0 {
		return nextNumber(0, nil)
	}
	return nextNumber(present[0], present)
}

// showTicket shows a ticket under its number.
func (d *Dir) showTicket(t Ticket) (*ownFile, error) {
	name := ticketName(t.Number, randomName())
	text, err := encode(ticketText{name, t})
	if err != nil {
		return nil, fmt.Errorf("ticket: %w", err)
	}
	s, err := d.newUnnamed()
	if err != nil {
		return nil, err
	}
	return s, s.writeAndShow(name, text)
}

// ticketsBefore lists the tickets with lower numbers. Since every new one gets a higher number
// than ours, they only become fewer; one that comes later with a lower number all the
// same was pushed in, and does not hold up those who wait already. Of those that took one
// number at the same moment only the first by name keeps it, when the others have gone: one
// that does not go has not seen us, and is before us.
func (d *Dir) ticketsBefore(number int64, mine string) (ahead []queuedTicket, alone bool, err error) {
	deadline := time.Now().Add(tieWait)
	for pause := 500 * time.Microsecond; ; pause *= 2 {
		all, err := d.newReader(nil).readTickets()
		if err != nil {
			return nil, false, err
		}
		first := slices.IndexFunc(all, func(w queuedTicket) bool { return w.Number >= number })
		end := slices.IndexFunc(all, func(w queuedTicket) bool { return w.Number > number })
		if end < 0 {
			end = len(all)
		}
		if end-first <= 1 || first < 0 {
			return d.withoutOvertaken(all[:max(first, 0):max(first, 0)]), true, nil
		}
		if all[first].path() != mine || time.Now().After(deadline) {
			return d.withoutOvertaken(all[:end:end]), false, nil
		}
		sleep(context.Background(), pause)
	}
}

// Ahead counts the living tickets before ours.
func (p *QueuePlace) Ahead() (int, error) {
	return p.dropGone(func(entry) bool { return true }), nil
}

// Head is the ticket at the head of the queue, as we see it; false: that is ours.
func (p *QueuePlace) Head() (Ticket, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ahead) == 0 {
		return Ticket{}, false
	}
	return p.ahead[0].Ticket, true
}

// Overtake goes ahead of a user: none of his tickets that wait now is before ours any more, nor
// before those of our user's other requests for a while. With a number it is that one
// ticket only (TRUST-18).
func (p *QueuePlace) Overtake(uid int, number int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var first, last int64
	p.ahead = slices.DeleteFunc(p.ahead, func(w queuedTicket) bool {
		if w.uid != uid || number != 0 && w.Number != number {
			return false
		}
		first, last = number, max(last, w.Number)
		return true
	})
	p.d.writeNotes(func(n *rememberedUsers) { n.Overtaken = append(n.Overtaken, overtaken{uid, first, last, time.Now()}) })
}

// dropGone drops those tickets of the ones asked for that are gone, and counts the rest.
func (p *QueuePlace) dropGone(ask func(entry) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead = slices.DeleteFunc(p.ahead, func(w queuedTicket) bool {
		return ask(w.entry) && !p.d.isAlive(w.entry)
	})
	return len(p.ahead)
}

// Leave gives the place up. It may be called again.
func (p *QueuePlace) Leave() error {
	if err := p.file.remove(); err != nil {
		return fmt.Errorf("ticket in %s: %w", p.d.path, err)
	}
	return nil
}

// WaitForTurn blocks until no living ticket is ahead, or ctx ends. moved, if not nil, is told how
// many are ahead, first and whenever that has changed. Nobody polls: the kernel tells
// of each file's end, and only that file is looked at then.
func (p *QueuePlace) WaitForTurn(ctx context.Context, moved func(ahead int)) error {
	w := newWatcher(p.d)
	defer w.close()
	for _, s := range p.copyAhead() {
		w.watchEntry(s.entry)
	}
	told := -1
	ask := func(entry) bool { return true }
	for {
		n := p.dropGone(ask)
		if n != told && moved != nil {
			moved(n)
		}
		told = n
		if n == 0 {
			return nil
		}
		ended, err := w.wait(ctx, recheckEvery)
		if err != nil {
			return err
		}
		ask = p.mayHaveGone(ctx, ended)
	}
}

// copyAhead is a copy, for who looks at it without the lock.
func (p *QueuePlace) copyAhead() []queuedTicket {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ahead)
}

// mayHaveGone tells which tickets to look at after some have ended: those, or all if it is
// not known which, or the one before ours if nothing happened for long.
func (p *QueuePlace) mayHaveGone(ctx context.Context, ended changes) func(entry) bool {
	if ended.unknown {
		return func(entry) bool { return true }
	}
	ahead := p.copyAhead()
	var closed []entry
	for _, s := range ahead {
		if ended.files[s.path()] {
			closed = append(closed, s.entry)
		}
	}
	p.d.waitUnlocked(ctx, closed)
	if n := len(ahead); n > 0 && len(ended.files) == 0 {
		return func(s entry) bool { return s.path() == ahead[n-1].path() }
	}
	return func(s entry) bool { return ended.files[s.path()] }
}
