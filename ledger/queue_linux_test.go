package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

func TestNextNumber(t *testing.T) {
	for _, c := range []struct {
		first   int64
		present []int64
		want    int64
	}{
		{0, nil, 1},
		{1, []int64{1, 2, 3}, 4},
		{5, []int64{2, 5, 9}, 10},
		{5, []int64{5, maxNumber}, 6}, // the largest number would end the queue
		{0, []int64{maxNumber}, 1},
		{maxNumber, []int64{maxNumber}, 1},
		{maxNumber, []int64{1, 2, maxNumber}, 3},
		{7_000_000_000, []int64{3, 7_000_000_000}, 7_000_000_001},
	} {
		if got := nextNumber(c.first, c.present); got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}

// Twenty waiters are served in the order of their tickets.
func TestOrder(t *testing.T) {
	dir := shared(t)
	var queue []*actor
	for i := range 20 {
		a := newActor(t, dir, 0)
		a.want(fmt.Sprint(i+1), "enqueue", fmt.Sprintf("j%d", i))
		queue = append(queue, a)
		a.want(fmt.Sprint("ahead ", i), "turn")
	}
	for i, a := range queue {
		if got := a.hear(); got != "turn" {
			t.Fatalf("waiter %d: %q", i, got)
		}
		a.want("ok", "leave")
		for k := i + 1; k < len(queue); k++ {
			if got, want := queue[k].hear(), fmt.Sprint("ahead ", k-i-1); got != want {
				t.Fatalf("waiter %d: %q, want %q", k, got, want)
			}
		}
	}
}

// The first, a middle and the last waiter are killed: the others keep their order.
func TestKilledWaiters(t *testing.T) {
	dir := shared(t)
	b := open(t, dir)
	var queue []*actor
	for i := range 6 {
		a := newActor(t, dir, 0)
		a.want(fmt.Sprint(i+1), "enqueue", fmt.Sprintf("j%d", i))
		a.want(fmt.Sprint("ahead ", i), "turn")
		queue = append(queue, a)
	}
	received := func(a *actor, want ...string) {
		t.Helper()
		for _, w := range want {
			if got := a.hear(); got != w {
				t.Fatalf("got %q, want %q", got, w)
			}
		}
	}
	received(queue[0], "turn")
	queue[2].kill()
	received(queue[3], "ahead 2")
	received(queue[4], "ahead 3")
	received(queue[5], "ahead 4")
	queue[0].kill()
	received(queue[1], "ahead 0", "turn")
	received(queue[3], "ahead 1")
	received(queue[4], "ahead 2")
	queue[5].kill()
	queue[1].want("ok", "leave")
	received(queue[3], "ahead 0", "turn")
	tickets, err := b.Tickets()
	if err != nil || len(tickets) != 2 || tickets[0].Number != 4 || tickets[1].Number != 5 {
		t.Errorf("tickets %v, %v", tickets, err)
	}
	p, err := b.Enqueue(ticketOf("new"))
	if err != nil || p.Ticket.Number != 6 {
		t.Fatal(p, err)
	}
	if n, err := p.Ahead(); n != 2 || err != nil {
		t.Error(n, err)
	}
	if left := files(t, b, kindTicket); len(left) != 3 {
		t.Errorf("leftovers were not removed: %q", left)
	}
	p.Leave()
}

// Many arrive at once and some are killed while they do. Each number belongs to one waiter, and
// the others are served in the order of numbers.
func TestManyEnqueueAtOnce(t *testing.T) {
	dir := shared(t)
	b := open(t, dir)
	var coming []*actor
	for range 16 {
		a := newActor(t, dir, 0)
		a.want("", "claims") // is ready
		coming = append(coming, a)
	}
	for _, a := range coming {
		a.tell("join", "j")
	}
	for _, a := range coming[:4] {
		sleep(t.Context(), time.Duration(rand.IntN(300))*time.Microsecond)
		a.kill()
	}
	queue := make(map[int64]*actor)
	for _, a := range coming[4:] {
		n, err := strconv.ParseInt(a.hear(), 10, 64)
		if err != nil || queue[n] != nil {
			t.Fatalf("number %d twice or %v", n, err)
		}
		queue[n] = a
	}
	tickets, err := b.Tickets()
	if err != nil || len(tickets) != len(queue) {
		t.Fatalf("%d tickets, want %d; %v", len(tickets), len(queue), err)
	}
	for i, ticket := range tickets {
		a := queue[ticket.Number]
		a.want("ahead 0", "turn")
		a.want("turn")
		if i++; i < len(tickets) {
			next := queue[tickets[i].Number]
			next.want("ahead 1", "turn")
			a.want("ok", "leave")
			next.want("ahead 0")
			next.want("turn")
		}
		a.ask("leave")
	}
	if tickets, _ := b.Tickets(); len(tickets) > 0 {
		t.Error(tickets)
	}
}

// A waiter can be canceled, and then leaves nothing behind.
func TestWaitForTurnEndsWithContext(t *testing.T) {
	b := open(t, shared(t))
	first, err1 := b.Enqueue(ticketOf("j1"))
	second, err2 := b.Enqueue(ticketOf("j2"))
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := second.WaitForTurn(ctx, func(int) { cancel() }); err != context.Canceled {
		t.Error(err)
	}
	second.Leave()
	first.Leave()
	if left := files(t, b, kindTicket); left != nil {
		t.Error(left)
	}
}

// Without a free inotify instance waiting takes a little longer.
func TestWaitForTurnWithoutInotify(t *testing.T) {
	dir := shared(t)
	b := open(t, dir)
	b.testWithout.inotify = true
	a := newActor(t, dir, 0)
	a.want("1", "enqueue", "j1")
	p, err := b.Enqueue(ticketOf("j2"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Leave()
	var ahead []int
	err = p.WaitForTurn(t.Context(), func(n int) {
		if ahead = append(ahead, n); n == 1 {
			a.kill()
		}
	})
	if err != nil || !slices.Equal(ahead, []int{1, 0}) {
		t.Error(ahead, err)
	}
}

// A ticket with the largest number neither ends the queue nor delays it.
func TestFarNumbers(t *testing.T) {
	b := open(t, shared(t))
	far := ticketOf("far")
	far.Number = maxNumber
	s, err := b.publishTicket(far)
	if err != nil {
		t.Fatal(err)
	}
	defer s.remove()
	p, err := b.Enqueue(ticketOf("j"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Leave()
	q, err := b.Enqueue(ticketOf("k"))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Leave()
	if n, _ := q.Ahead(); p.Ticket.Number != 1 || q.Ticket.Number != 2 || n != 1 {
		t.Errorf("numbers %d and %d, %d ahead", p.Ticket.Number, q.Ticket.Number, n)
	}
}

// The decision lock of a launcher that is killed is free.
func TestDecisionLockOfKilled(t *testing.T) {
	dir := shared(t)
	b := open(t, dir)
	for range 20 {
		a := newActor(t, dir, 0)
		a.want("ok", "lock")
		time.AfterFunc(time.Millisecond, func() { a.cmd.Process.Kill() })
		g, err := b.LockDecision(t.Context())
		if err != nil || g.Warning != nil {
			t.Fatal(err, g.Warning)
		}
		g.Unlock()
	}
}

// Tickets that come later with low numbers do not delay those who wait already.
func TestLateTicketWithLowNumber(t *testing.T) {
	b := open(t, shared(t))
	a, _ := b.Enqueue(ticketOf("j1"))
	p, err := b.Enqueue(ticketOf("j2"))
	if err != nil {
		t.Fatal(err)
	}
	a.Leave()
	late := ticketOf("late")
	late.Number = 1
	s, err := b.publishTicket(late)
	if err != nil {
		t.Fatal(err)
	}
	defer s.remove()
	tickets, _ := b.Tickets()
	if !slices.EqualFunc(tickets, []int64{1, 2}, func(t Ticket, n int64) bool { return t.Number == n }) {
		t.Fatal(tickets)
	}
	if n, err := p.Ahead(); n != 0 || err != nil {
		t.Error(n, err)
	}
	p.Leave()
}

// One request has the decision lock at a time. The next gets it when the first releases it or dies.
func TestDecisionLock(t *testing.T) {
	b := open(t, shared(t))
	g, err := b.LockDecision(t.Context())
	if err != nil || g.Warning != nil {
		t.Fatal(err, g.Warning)
	}
	got := make(chan *DecisionLock)
	go func() {
		g, _ := b.LockDecision(context.Background())
		got <- g
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := b.LockDecision(ctx); err != context.DeadlineExceeded {
		t.Error(err)
	}
	select {
	case <-got:
		t.Fatal("two have the lock")
	default:
	}
	g.Unlock()
	g.Unlock()
	second := <-got
	if second.Warning != nil {
		t.Error(second.Warning)
	}
	second.Unlock()
}
