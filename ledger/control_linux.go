package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

/*
Asks are how somebody speaks to a running job without a daemon (survive.md SV-24). The asker and the helper of the job each write a file in
the ledger, in a directory of their own user:

	asker                         files                            helper of the job
	  |                             |                                |
	  | Ask: make and lock ----> ask-JOB-RANDOM ----- inotify -----> | HearAsks
	  |                             |                                |
	  | Answer: read <---------- answer-UID-RANDOM <-- make and lock | Respond
	  | Answer: read <---------- answer-UID-RANDOM <-------- replace | Rewrite, each time that more is known
	  |                             |                                |
	  | Drop: remove ----------> ask-JOB-RANDOM -------------------> | Waits: no longer

UID is the asker's. Everybody sees RANDOM, so another user could ask something under the same name.
*/

// A PostedFile is an ask or an answer of ours that others see, until Drop or the death of this process.
type PostedFile struct {
	ID   string // by which an ask is answered
	file *ownFile
}

// Drop takes it away. It may be called again.
func (s *PostedFile) Drop() error { return s.file.remove() }

// A FoundRequest is one that somebody has shown.
type FoundRequest struct {
	job.ControlRequest        // with the name of its user as this node has it
	ID                 string // by which it is answered
	entry              entry
}

// requestNamePrefix begins the names of all asks of a job.
func requestNamePrefix(id job.ID) string { return fmt.Sprintf("%s%s-", kindRequest, id) }

// PostRequest shows an ask.
func (d *Dir) PostRequest(a job.ControlRequest) (*PostedFile, error) {
	if err := errors.Join(checkRequest(a), checkOwner(a.UID)); err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	d.removeStaleRequests()
	number := randomName()
	name := requestNamePrefix(a.Job) + number
	text, err := encode(requestText{name, a})
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	s, err := d.newUnnamed()
	if err == nil {
		err = s.writeAndShow(name, text)
	}
	if err != nil {
		return nil, err
	}
	return &PostedFile{replyID(a, number), s}, nil
}

// replyID is the name by which an ask is answered. A version that names no owner waits for an answer under the random part alone.
func replyID(a job.ControlRequest, random string) string {
	if a.Owner == job.AnyOwner {
		return random
	}
	return fmt.Sprintf("%d-%s", a.UID, random)
}

// checkReplyID refuses what answerID does not make.
func checkReplyID(id string) error {
	uid, random, both := strings.Cut(id, "-")
	if !both {
		return checkRandom(id)
	}
	if n, err := strconv.ParseUint(uid, 10, 32); err != nil || strconv.FormatUint(n, 10) != uid {
		return fmt.Errorf("%.60q is no number of a user", uid)
	}
	return checkRandom(random)
}

// removeStaleRequests removes what askers of ours, or helpers, that were killed have left.
func (d *Dir) removeStaleRequests() {
	for _, kind := range []string{kindRequest, kindReply} {
		l := d.newReader(nil)
		l.readKind(kind, func(entry) {})
		l.removeStale(time.Now())
	}
}

// PostReply answers an ask for the first time. An error that is unix.EEXIST says that another helper of
// the job has done so.
func (d *Dir) PostReply(id string, a job.ControlReply) (*PostedFile, error) {
	s, name, err := d.writeReply(id, a)
	if err != nil {
		return nil, err
	}
	if err := s.show(name); err != nil {
		s.remove()
		return nil, err
	}
	return &PostedFile{id, s}, nil
}

// ReplaceReply puts another answer in the place of one, at a stroke (gang.md G-3): it is locked before it has
// the name.
func (d *Dir) ReplaceReply(old *PostedFile, a job.ControlReply) (*PostedFile, error) {
	s, name, err := d.writeReply(old.ID, a)
	if err != nil {
		return old, err
	}
	if err := s.replace(name); err != nil {
		s.remove()
		return old, err
	}
	old.file.remove() // its name is another file's now
	return &PostedFile{old.ID, s}, nil
}

// writeReply writes and locks an answer that nobody sees yet.
func (d *Dir) writeReply(id string, a job.ControlReply) (s *ownFile, name string, err error) {
	name = kindReply + id
	if err := errors.Join(checkReplyID(id), checkReply(a), checkOwner(a.UID)); err != nil {
		return nil, "", fmt.Errorf("answer: %w", err)
	}
	text, err := encode(replyText{name, a, a.Ranks})
	if err != nil {
		return nil, "", fmt.Errorf("answer: %w", err)
	}
	if s, err = d.newUnnamed(); err != nil {
		return nil, "", err
	}
	if err = s.write(text); err == nil {
		err = s.lock()
	}
	if err != nil {
		s.remove()
		return nil, "", err
	}
	return s, name, nil
}

// ReadReply reads how an ask is answered by the owner of its job, in so many bytes at most; false: it is not, or no longer.
func (d *Dir) ReadReply(id string, owner, most int) (a job.ControlReply, found bool) {
	all, _ := d.listUserDirs(time.Now().Add(d.ReadTime)) // what was read counts
	_, random, _ := strings.Cut(id, "-")
	for _, s := range all {
		if s.uid != owner {
			continue
		}
		for _, name := range []string{id, random} { // a job of an older version answers by the random part
			if a, found = d.readReplyFrom(s, kindReply+name, most); found {
				return a, true
			}
		}
	}
	return a, false
}

// UserName is what to call a user of this node.
func (d *Dir) UserName(uid int) string { return d.userName(uid) }

func (d *Dir) readReplyFrom(s userDir, name string, most int) (a job.ControlReply, found bool) {
	dir, err := d.openUserDir(s)
	if err != nil {
		return a, false
	}
	defer unix.Close(dir)
	e, err := d.readEntry(dir, s, name, nil)
	if err != nil || len(e.text) > most {
		return a, false
	}
	a, err = decodeReply(name, s.uid, e.text)
	return a, err == nil
}

// StillWaits reports whether the asker still does.
func (d *Dir) StillWaits(a FoundRequest) bool { return d.isAlive(a.entry) }

// Of the asks of a user so many are looked at, and one is taken up in a second (SV-25). However many
// there are, and however they come and go, all together are looked at ten times a second at most.
const (
	maxRequestsPerUser = 16
	requestInterval    = time.Second
	minRequestInterval = 100 * time.Millisecond
)

// WatchRequests hands each new ask of a job of our user to take, until ctx ends, with its error, or the directory cannot
// be read any more.
func (d *Dir) WatchRequests(ctx context.Context, id job.ID, take func(FoundRequest)) error {
	w := newWatcher(d)
	defer w.close()
	w.kind = requestNamePrefix(id)
	w.watchDir()
	taken, last := make(map[string]bool), make(map[int]time.Time)
	for {
		asks, still, err := d.readRequests(w, id, taken)
		if err != nil {
			return err
		}
		taken = still
		chosen, pause := nextRequests(asks, d.requestingUsers(asks), last, time.Now())
		for _, a := range chosen {
			taken[a.entry.path()] = true
			take(a)
		}
		if err := w.waitForNames(ctx, pause); err != nil {
			return err
		}
	}
}

// readRequests are those of a job that were not taken up, of each user a few, and which of the taken are
// still there.
func (d *Dir) readRequests(w *watcher, id job.ID, taken map[string]bool) (found []FoundRequest, still map[string]bool, err error) {
	for {
		fresh := false
		found, still = nil, make(map[string]bool)
		l := d.newReader(taken)
		l.maxPerUser, l.stillThere = maxRequestsPerUser, still
		l.onUserDir = func(s userDir) { fresh = w.watchUserDir(s) || fresh }
		err = l.readKind(requestNamePrefix(id), func(s entry) {
			a, random, err := decodeRequest(s.base, s.uid, s.text)
			if err != nil || a.Job != id || a.Owner != os.Geteuid() && a.Owner != job.AnyOwner {
				return
			}
			s.text = nil
			a.User = d.userName(s.uid)
			found = append(found, FoundRequest{a, replyID(a, random), s})
		})
		if err != nil || !fresh {
			return found, still, err
		}
	}
}

// requestingUsers are the users that askers count as: those without an account are one together, as somebody can have 65,536 such numbers.
func (d *Dir) requestingUsers(asks []FoundRequest) (users []int) {
	for _, a := range asks {
		user := a.UID
		if user != os.Geteuid() {
			user = d.users().userOf(user)
		}
		users = append(users, user)
	}
	return users
}

// nextRequests are those to take up now: of each user one in a second; and after how long the next one may
// be, 0: there is none.
func nextRequests(asks []FoundRequest, users []int, last map[int]time.Time, now time.Time) (chosen []FoundRequest, pause time.Duration) {
	for i, a := range asks {
		if before, any := last[users[i]]; any && now.Sub(before) < requestInterval {
			if left := requestInterval - now.Sub(before); pause == 0 || left < pause {
				pause = left
			}
			continue
		}
		last[users[i]] = now
		chosen = append(chosen, a)
	}
	return chosen, pause
}

// waitForNames waits for a new name, but for no longer than a pause, if there is one.
func (w *watcher) waitForNames(ctx context.Context, pause time.Duration) error {
	for {
		limit := recheckEvery
		if pause > 0 {
			limit = min(limit, pause)
		}
		n, err := w.wait(ctx, limit)
		if err != nil {
			return err
		}
		if err := sleep(ctx, minRequestInterval); err != nil {
			return err
		}
		if n.unknown || n.names || n.files == nil || pause > 0 {
			return nil
		}
	}
}

// decodeRequest reads the ask in a file of this name and owner, and by what it is answered.
func decodeRequest(name string, owner int, text []byte) (a job.ControlRequest, random string, err error) {
	t := requestText{ControlRequest: job.ControlRequest{Owner: job.AnyOwner}}
	if err := decodeAs(name, owner, text, &t, func() (string, int) { return t.File, t.UID }); err != nil {
		return a, "", err
	}
	if err := checkRequest(t.ControlRequest); err != nil {
		return a, "", err
	}
	random, is := strings.CutPrefix(name, requestNamePrefix(t.Job))
	if !is {
		return a, "", fmt.Errorf("is of job %.60q", t.Job)
	}
	t.User = truncate(t.User)
	return t.ControlRequest, random, checkRandom(random)
}

// decodeReply is decodeAsk for answers.
func decodeReply(name string, owner int, text []byte) (a job.ControlReply, err error) {
	var t replyText
	if err := decodeAs(name, owner, text, &t, func() (string, int) { return t.File, t.UID }); err != nil {
		return a, err
	}
	a = t.ControlReply
	a.Text, a.Ranks = truncate(a.Text), t.Ranks
	return a, checkReply(a)
}
