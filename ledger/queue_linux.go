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

// recheckEvery is how long a waiting request relies on notifications before it checks the queue itself.
const recheckEvery = 10 * time.Second

// Tickets returns the tickets in the queue, ordered by number. If the error is a *LimitError, some tickets are
// missing.
func (d *Dir) Tickets() ([]Ticket, error) {
	l := d.newReader(nil)
	all, err := l.readTickets()
	tickets := make([]Ticket, 0, min(len(all), maxListedTotal))
	for _, w := range all[:min(len(all), maxListedTotal)] {
		tickets = append(tickets, w.Ticket)
	}
	return tickets, cmp.Or(err, l.readError)
}

// CountWaiting returns the first ticket in the queue, and the number of tickets that come before a request without a
// ticket. It leaves out tickets that the current user has recently overtaken (rule TRUST-18).
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

// A queuedTicket is a ticket together with the file from which it was read.
type queuedTicket struct {
	entry
	Ticket
}

// readTickets returns all valid tickets in the order of the queue.
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

// A QueuePlace is a place in the queue. It lasts until Leave is called or this process dies.
type QueuePlace struct {
	Ticket Ticket

	d    *Dir
	file *ownFile

	mu    sync.Mutex     // guards ahead
	ahead []queuedTicket // the tickets before ours, in their order
}

// Enqueue puts a ticket with the next number into the queue. The ticket's file is locked before others can
// see it. Enqueue returns *UnusableError if the ledger cannot be used.
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
		s, err := d.publishTicket(t)
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

// maxTicketTies is the maximum number of times that Enqueue retries because another request has taken the same
// number at the same moment.
const maxTicketTies = 100

// nextTicketNumber returns the number for a new ticket, which comes after all tickets in the queue.
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

// publishTicket writes a ticket to a file and publishes the file under the ticket's number.
func (d *Dir) publishTicket(t Ticket) (*ownFile, error) {
	name := ticketName(t.Number, randomName())
	text, err := encode(ticketText{name, t})
	if err != nil {
		return nil, fmt.Errorf("ticket: %w", err)
	}
	s, err := d.newUnnamed()
	if err != nil {
		return nil, err
	}
	return s, s.writeAndPublish(name, text)
}

// ticketsBefore returns the tickets with lower numbers than number. New tickets get higher numbers, so this list can
// only become shorter. A ticket that appears later with a lower number is ignored, because its user is trying to jump
// the queue.
//
// If several processes have taken the same number at the same moment, only the ticket with the alphabetically first
// path may remain. mine is the path of this process's ticket. alone is true if this ticket may remain and the other
// tickets have been withdrawn. Tickets with the same number that are not withdrawn in time are included in earlier.
func (d *Dir) ticketsBefore(number int64, mine string) (earlier []queuedTicket, alone bool, err error) {
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

// Ahead returns the number of live tickets before this place.
func (p *QueuePlace) Ahead() (int, error) {
	return p.dropGone(func(entry) bool { return true }), nil
}

// Head returns the ticket at the head of the queue. It returns false if this place is the head.
func (p *QueuePlace) Head() (Ticket, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.ahead) == 0 {
		return Ticket{}, false
	}
	return p.ahead[0].Ticket, true
}

// Overtake moves this place before the tickets that the given user has in the queue now. For rememberTime, other
// requests of the current user ignore these tickets, too. If number is not 0, only the ticket with this number is
// overtaken (rule TRUST-18).
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
	p.d.writeNotes(func(n *rememberedUsers) {
		n.Overtaken = append(n.Overtaken, overtakenUser{uid, first, last, time.Now()})
	})
}

// dropGone shortens the list of tickets before this place: it removes each ticket whose holder is dead. It checks only
// tickets for which check returns true. It returns the number of tickets that remain before this place.
func (p *QueuePlace) dropGone(check func(entry) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ahead = slices.DeleteFunc(p.ahead, func(w queuedTicket) bool {
		return check(w.entry) && !p.d.isAlive(w.entry)
	})
	return len(p.ahead)
}

// Leave leaves the queue. It may be called more than once.
func (p *QueuePlace) Leave() error {
	if err := p.file.remove(); err != nil {
		return fmt.Errorf("ticket in %s: %w", p.d.path, err)
	}
	return nil
}

// WaitForTurn blocks until no live ticket is before this place, or ctx is done. If moved is not nil, it is called with
// the number of tickets before this place, first at once and then after each change. WaitForTurn polls only if inotify
// is not available. Otherwise inotify reports when a file disappears, and WaitForTurn then checks only that file.
func (p *QueuePlace) WaitForTurn(ctx context.Context, moved func(ahead int)) error {
	w := newWatcher(p.d)
	defer w.close()
	for _, s := range p.copyAhead() {
		w.watchEntry(s.entry)
	}
	reported := -1
	check := func(entry) bool { return true }
	for {
		n := p.dropGone(check)
		if n != reported && moved != nil {
			moved(n)
		}
		reported = n
		if n == 0 {
			return nil
		}
		ended, err := w.wait(ctx, recheckEvery)
		if err != nil {
			return err
		}
		check = p.ticketFilter(ctx, ended)
	}
}

// copyAhead returns a copy of the list of tickets before this place.
func (p *QueuePlace) copyAhead() []queuedTicket {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ahead)
}

// ticketFilter returns a function that selects the tickets to check after the given changes. It selects the tickets
// whose files have changed, or all tickets if it is unknown which files have changed. If nothing has happened for a
// long time, it selects only the last ticket before this place.
func (p *QueuePlace) ticketFilter(ctx context.Context, ended changes) func(entry) bool {
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
