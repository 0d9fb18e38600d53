package ledger

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// A hundred tickets of a user are overtaken, also by our next requests.
// Those of other users stay ahead, and other users have not overtaken any (TRUST-18).
func TestOvertake(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	evil, honest, other := newActor(t, dir, stranger), newActor(t, dir, stranger+1), newActor(t, dir, stranger+2)
	for i := range 100 {
		evil.want(fmt.Sprint(i+1), "enqueue", "stale")
	}
	honest.want("101", "enqueue", "honest")
	p, err := b.Enqueue(ticketOf("mine"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Leave()
	ahead := func(p *QueuePlace, want int) {
		t.Helper()
		if n, err := p.Ahead(); n != want || err != nil {
			t.Errorf("%d ahead, %v; want %d", n, err, want)
		}
	}
	ahead(p, 101)
	if head, _ := p.Head(); head.UID != stranger || head.Number != 1 {
		t.Errorf("head %+v", head)
	}
	p.Overtake(stranger, 1)
	ahead(p, 100)
	p.Overtake(stranger, 0)
	ahead(p, 1)
	if head, _ := p.Head(); head.UID != stranger+1 {
		t.Errorf("head %+v", head)
	}
	if n, head, err := b.CountWaiting(); n != 2 || head.Job != "honest" || err != nil { // and ours
		t.Errorf("%d before a new request, %+v, %v", n, head, err)
	}
	evil.want("103", "enqueue", "late")
	if n, _, _ := b.CountWaiting(); n != 3 {
		t.Errorf("%d before a new request, with one that came after the pass", n)
	}
	other.want("104", "enqueue", "j")
	other.want("ahead 103", "turn")
	n := b.readNotes()
	if !n.isOvertaken(Ticket{UID: stranger, Number: 5}, time.Now().Add(rememberTime-time.Minute)) || n.isOvertaken(Ticket{UID: stranger, Number: 5}, time.Now().Add(rememberTime)) ||
		n.isOvertaken(Ticket{UID: stranger + 1, Number: 5}, time.Now()) || n.isOvertaken(Ticket{UID: stranger, Number: 103}, time.Now()) {
		t.Errorf("notes %+v", n)
	}
}

// Notes are our own: a file that another user made, or an invalid one, counts as empty.
func TestNotes(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	b.writeNotes(func(n *rememberedUsers) { n.noteUnresponsive(5, time.Now()) })
	b.writeNotes(func(n *rememberedUsers) { n.noteUnresponsive(6, time.Now()); n.noteUnresponsive(6, time.Now()) })
	if n := b.readNotes(); len(n.Unresponsive) != 2 || !n.unresponsiveUsers(time.Now())[5] || n.unresponsiveUsers(time.Now().Add(rememberTime))[5] {
		t.Errorf("%+v", n)
	}
	if left := files(t, b, kindNew); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	evil := newActor(t, dir, stranger)
	file := filepath.Join(filepath.Dir(files(t, b, notesFile)[0]), notesFile)
	if got := evil.ask("write", file, "{}"); got == "ok" {
		t.Error("others can write our notes")
	}
	for _, junk := range []string{"", "[", `{"vain":3}`, strings.Repeat(" ", 1<<20)} {
		if err := os.WriteFile(file, []byte(junk), 0o600); err != nil {
			t.Fatal(err)
		}
		if n := b.readNotes(); len(n.Unresponsive) > 0 {
			t.Errorf("%.20q: %+v", junk, n)
		}
	}
}

// Root can evict the holder of any claim or ticket. Others can evict only their own, and the error says who may
// (TRUST-19).
func TestEvict(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	holder, other := newActor(t, dir, stranger), newActor(t, dir, stranger+1)
	holder.want("ok", "take", "j", "1")
	holder.want("1", "enqueue", "j")
	other.want("ok", "take", "k", "2")
	if got := other.ask("evict", "j", stranger); got != fmt.Sprintf("only root or uid %d may do this", stranger) {
		t.Errorf("another user: %q", got)
	}
	wantClaims(t, b, "j", "k")
	bystander := newActor(t, dir, stranger) // of the same user, with the file open but without its lock
	bystander.want("ok", "keep", files(t, b, kindClaim)[0])
	done, err := b.Evict(t.Context(), job.Key{Job: "j", UID: stranger})
	if err != nil || len(done) != 2 {
		t.Fatalf("%+v, %v", done, err)
	}
	var pids []int
	for _, e := range done {
		pids = append(pids, e.PIDs...)
		if e.StillHeld {
			t.Errorf("%+v", e)
		}
	}
	if !slices.Equal(pids, []int{holder.cmd.Process.Pid}) {
		t.Errorf("ended %d, want %d", pids, holder.cmd.Process.Pid)
	}
	holder.cmd.Wait()
	wantClaims(t, b, "k")
	bystander.want("k", "claims")
	if left := append(files(t, b, kindTicket), files(t, b, kindClaim)...); len(left) != 1 {
		t.Errorf("left: %q", left)
	}
	if done, err := b.Evict(t.Context(), job.Key{Job: "j", UID: stranger + 1}); err != nil || done != nil {
		t.Errorf("%+v, %v", done, err)
	}
	other.want("ok", "evict-child", "k2")
}

// A process that has got the number of a former holder is not signaled, since it does not hold the entry.
func TestEvictSparesOtherProcesses(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	holder, innocent := newActor(t, dir, stranger), newActor(t, dir, stranger)
	holder.want("ok", "take", "j", "1")
	var s entry
	if err := b.newReader(nil).readKind(kindClaim, func(found entry) { s = found }); err != nil {
		t.Fatal(err)
	}
	if b.signalHolder(innocent.cmd.Process.Pid, s, unix.SIGKILL, time.Now().Add(time.Minute)) {
		t.Error("a process that holds nothing was signalled")
	}
	holder.kill()
	for _, pid := range []int{holder.cmd.Process.Pid, innocent.cmd.Process.Pid, 1 << 22} {
		if b.signalHolder(pid, s, unix.SIGKILL, time.Now().Add(time.Minute)) {
			t.Errorf("%d was signalled", pid)
		}
	}
	innocent.want("", "claims")
}

// A holder that ignores SIGTERM is killed, with all processes that have its lock.
func TestEvictKills(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	holder := newActor(t, dir, stranger)
	holder.want("ok", "take", "j", "1")
	child, err := strconv.Atoi(holder.ask("heir"))
	if err != nil {
		t.Fatal(err)
	}
	done, err := b.Evict(t.Context(), job.Key{Job: "j", UID: stranger})
	if err != nil || len(done) != 1 || done[0].StillHeld || !slices.Contains(done[0].PIDs, child) || done[0].PIDs[0] != holder.cmd.Process.Pid {
		t.Errorf("%+v, %v; the heir is %d", done, err, child)
	}
	wantClaims(t, b)
}
