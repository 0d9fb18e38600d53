package ledger

import (
	"encoding/json"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// rememberTime is how long notes about other users of the queue remain valid.
const rememberTime = 10 * time.Minute

// notesFile is the name of a file with notes, in the user's own ledger directory. Only this user reads it.
const notesFile = "notes"

// rememberedUsers lists users who did not release the decision lock in time, and users whom the current user has
// overtaken in the queue.
type rememberedUsers struct {
	Unresponsive []unresponsiveUser `json:"vain,omitempty"`   // users who held the decision lock too long
	Overtaken    []overtakenUser    `json:"passed,omitempty"` // users who were overtaken in the queue (TRUST-18)
}

type unresponsiveUser struct {
	UID int       `json:"uid"`
	At  time.Time `json:"at"`
}

// An overtakenUser is a user whom the current user has overtaken in the queue. Requests of the current user ignore that
// user's tickets with numbers from First to Last.
type overtakenUser struct {
	UID   int       `json:"uid"`
	First int64     `json:"first,omitempty"`
	Last  int64     `json:"last"`
	At    time.Time `json:"at"`
}

func (n *rememberedUsers) noteUnresponsive(uid int, now time.Time) {
	if !n.unresponsiveUsers(now)[uid] {
		n.Unresponsive = append(n.Unresponsive, unresponsiveUser{uid, now})
	}
}

// unresponsiveUsers returns the users who have recently kept the decision lock too long. Requests do not wait
// for their locks.
func (n *rememberedUsers) unresponsiveUsers(now time.Time) map[int]bool {
	uids := make(map[int]bool)
	for _, v := range n.Unresponsive {
		if isRecent(v.At, now) {
			uids[v.UID] = true
		}
	}
	return uids
}

// isOvertaken reports whether a job of the current user recently started although this ticket was before that job's
// ticket in the queue.
func (n *rememberedUsers) isOvertaken(t Ticket, now time.Time) bool {
	return slices.ContainsFunc(n.Overtaken, func(p overtakenUser) bool {
		return p.UID == t.UID && p.First <= t.Number && t.Number <= p.Last && isRecent(p.At, now)
	})
}

func isRecent(at, now time.Time) bool { return !at.After(now) && now.Sub(at) < rememberTime }

// dropExpired removes notes that are no longer valid.
func (n *rememberedUsers) dropExpired(now time.Time) {
	n.Unresponsive = slices.DeleteFunc(n.Unresponsive, func(v unresponsiveUser) bool { return !isRecent(v.At, now) })
	n.Overtaken = slices.DeleteFunc(n.Overtaken, func(p overtakenUser) bool { return !isRecent(p.At, now) })
}

// readNotes reads the notes of the current user. If they cannot be read, it returns empty notes.
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

// writeNotes changes the notes of the current user. Errors are ignored, because the only effect of missing
// notes is that some waits take longer.
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
	if s.write(text) == nil && s.publish(name) == nil && unix.Renameat(s.dir, name, s.dir, notesFile) == nil {
		s.name = ""
	}
}
