package ledger

import (
	"encoding/json"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// rememberTime is for how long what we noted of others counts.
const rememberTime = 10 * time.Minute

// notesFile has the notes of a user, on his own shelf: nobody else reads them.
const notesFile = "notes"

// rememberedUsers are what we remember of other users.
type rememberedUsers struct {
	Unresponsive []unresponsive `json:"vain,omitempty"`   // waited for at the gate, and did not go
	Overtaken    []overtaken    `json:"passed,omitempty"` // in the queue (TRUST-18)
}

type unresponsive struct {
	UID int       `json:"uid"`
	At  time.Time `json:"at"`
}

// An overtaken user has no ticket before ours, of these numbers.
type overtaken struct {
	UID   int       `json:"uid"`
	First int64     `json:"first,omitempty"`
	Last  int64     `json:"last"`
	At    time.Time `json:"at"`
}

func (n *rememberedUsers) noteUnresponsive(uid int, now time.Time) {
	if !n.unresponsiveUsers(now)[uid] {
		n.Unresponsive = append(n.Unresponsive, unresponsive{uid, now})
	}
}

// unresponsiveUsers are those for whom we need not wait.
func (n *rememberedUsers) unresponsiveUsers(now time.Time) map[int]bool {
	uids := make(map[int]bool)
	for _, v := range n.Unresponsive {
		if isRecent(v.At, now) {
			uids[v.UID] = true
		}
	}
	return uids
}

// isOvertaken reports whether a ticket is of a user whom we have passed while it was there.
func (n *rememberedUsers) isOvertaken(t Ticket, now time.Time) bool {
	return slices.ContainsFunc(n.Overtaken, func(p overtaken) bool {
		return p.UID == t.UID && p.First <= t.Number && t.Number <= p.Last && isRecent(p.At, now)
	})
}

func isRecent(at, now time.Time) bool { return !at.After(now) && now.Sub(at) < rememberTime }

// dropExpired drops what counts no more.
func (n *rememberedUsers) dropExpired(now time.Time) {
	n.Unresponsive = slices.DeleteFunc(n.Unresponsive, func(v unresponsive) bool { return !isRecent(v.At, now) })
	n.Overtaken = slices.DeleteFunc(n.Overtaken, func(p overtaken) bool { return !isRecent(p.At, now) })
}

// readNotes reads our notes. What cannot be read is nothing.
func (d *Dir) readNotes() *rememberedUsers {
	n := new(rememberedUsers)
	dir, _, err := d.openOwnDir()
	if err != nil {
		return n
	}
	defer unix.Close(dir)
	fd, st, err := d.openFile(dir, notesFile)
	if err != nil {
		return n
	}
	defer unix.Close(fd)
	text := make([]byte, min(st.Size, 64<<10))
	if got, err := unix.Pread(fd, text, 0); err != nil || got < len(text) || json.Unmarshal(text, n) != nil {
		return new(rememberedUsers)
	}
	return n
}

// writeNotes changes our notes. It is a convenience: what cannot be written is forgotten.
func (d *Dir) writeNotes(change func(*rememberedUsers)) {
	n := d.readNotes()
	n.dropExpired(time.Now())
	change(n)
	text, err := json.Marshal(n)
	s, err2 := d.newUnnamed()
	if err != nil || err2 != nil {
		return
	}
	defer s.remove()
	name := kindNew + randomName()
	if s.write(text) == nil && s.show(name) == nil && unix.Renameat(s.dir, name, s.dir, notesFile) == nil {
		s.name = ""
	}
}
