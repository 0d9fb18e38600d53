package ledger

import (
	"encoding/json"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// noteTime is for how long what we noted of others counts.
const noteTime = 10 * time.Minute

// noteFile has the notes of a user, on his own shelf: nobody else reads them.
const noteFile = "notes"

// notes are what we remember of other users.
type notes struct {
	Vain   []vainly `json:"vain,omitempty"`   // waited for at the gate, and did not go
	Passed []passed `json:"passed,omitempty"` // in the queue (TRUST-18)
}

type vainly struct {
	UID int       `json:"uid"`
	At  time.Time `json:"at"`
}

// A passed user has no ticket before ours, of these numbers.
type passed struct {
	UID   int       `json:"uid"`
	First int64     `json:"first,omitempty"`
	Last  int64     `json:"last"`
	At    time.Time `json:"at"`
}

func (n *notes) noteVain(uid int, now time.Time) {
	if !n.vain(now)[uid] {
		n.Vain = append(n.Vain, vainly{uid, now})
	}
}

// vain are those for whom we need not wait.
func (n *notes) vain(now time.Time) map[int]bool {
	uids := make(map[int]bool)
	for _, v := range n.Vain {
		if fresh(v.At, now) {
			uids[v.UID] = true
		}
	}
	return uids
}

// passes reports whether a ticket is of a user whom we have passed while it was there.
func (n *notes) passes(t Ticket, now time.Time) bool {
	return slices.ContainsFunc(n.Passed, func(p passed) bool {
		return p.UID == t.UID && p.First <= t.Number && t.Number <= p.Last && fresh(p.At, now)
	})
}

func fresh(at, now time.Time) bool { return !at.After(now) && now.Sub(at) < noteTime }

// forget drops what counts no more.
func (n *notes) forget(now time.Time) {
	n.Vain = slices.DeleteFunc(n.Vain, func(v vainly) bool { return !fresh(v.At, now) })
	n.Passed = slices.DeleteFunc(n.Passed, func(p passed) bool { return !fresh(p.At, now) })
}

// recall reads our notes. What cannot be read is nothing.
func (d *Dir) recall() *notes {
	n := new(notes)
	dir, _, err := d.ours()
	if err != nil {
		return n
	}
	defer unix.Close(dir)
	fd, st, err := d.openFile(dir, noteFile)
	if err != nil {
		return n
	}
	defer unix.Close(fd)
	text := make([]byte, min(st.Size, 64<<10))
	if got, err := unix.Pread(fd, text, 0); err != nil || got < len(text) || json.Unmarshal(text, n) != nil {
		return new(notes)
	}
	return n
}

// remember changes our notes. It is a convenience: what cannot be written is forgotten.
func (d *Dir) remember(change func(*notes)) {
	n := d.recall()
	n.forget(time.Now())
	change(n)
	text, err := json.Marshal(n)
	s, err2 := d.blank()
	if err != nil || err2 != nil {
		return
	}
	defer s.drop()
	name := kindNew + random()
	if s.write(text) == nil && s.show(name) == nil && unix.Renameat(s.dir, name, s.dir, noteFile) == nil {
		s.name = ""
	}
}
