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
Control requests reach a running job without a daemon (survive.md SV-24). The requester and the job's helper each
write a file to the ledger, in the directory of their own user:

	requester                     files                             helper of the job
	  |                             |                                |
	  | PostRequest: create ---> ask-JOB-RANDOM ----- inotify -----> | WatchRequests
	  |                             |                                |
	  | ReadReply: read <------- answer-UID-RANDOM <-- make and lock | PostReply
	  | ReadReply: read <------- answer-UID-RANDOM <-------- replace | ReplaceReply, for each update
	  |                             |                                |
	  | Drop: remove ----------> ask-JOB-RANDOM -------------------> | StillWaits: false

UID is the requester's. RANDOM is visible to all, so another user could make a request with the same RANDOM.
*/

// A PostedFile is a request or reply that this process has written to the ledger. All users of the node can read it,
// unless it is a reply that contains stacks. It exists until Drop is called or this process dies.
type PostedFile struct {
	ID   string // names the reply to a request
	file *ownFile
}

// Drop removes the file. It may be called more than once.
func (s *PostedFile) Drop() error { return s.file.remove() }

// A FoundRequest is a control request that mpiexec has found in the ledger, the node's directory of claims and
// requests.
type FoundRequest struct {
	job.ControlRequest        // User is replaced by the user's name on this node
	ID                 string // names the reply
	entry              entry
}

// requestNamePrefix returns the prefix of the file names of all requests to a job.
func requestNamePrefix(id job.ID) string { return fmt.Sprintf("%s%s-", kindRequest, id) }

// PostRequest writes a request to the ledger and returns its file.
func (d *Dir) PostRequest(a job.ControlRequest) (*PostedFile, error) {
	if err := errors.Join(checkRequest(a), checkOwner(a.UID)); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	d.removeStaleRequests()
	number := randomName()
	name := requestNamePrefix(a.Job) + number
	text, err := encode(requestText{name, a})
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	s, err := d.newUnnamed()
	if err == nil {
		err = s.writeAndPublish(name, text)
	}
	if err != nil {
		return nil, err
	}
	return &PostedFile{replyID(a, number), s}, nil
}

// replyID returns the ID under which the requester looks for the reply. If the requester has an older version, it sends
// no owner, and the ID is only the random part of the file name.
func replyID(a job.ControlRequest, random string) string {
	if a.Owner == job.AnyOwner {
		return random
	}
	return fmt.Sprintf("%d-%s", a.UID, random)
}

// checkReplyID returns an error for an ID that replyID never returns.
func checkReplyID(id string) error {
	uid, random, both := strings.Cut(id, "-")
	if !both {
		return checkRandom(id)
	}
	if n, err := strconv.ParseUint(uid, 10, 32); err != nil || strconv.FormatUint(n, 10) != uid {
		return fmt.Errorf("%.60q is not a numeric user ID", uid)
	}
	return checkRandom(random)
}

// removeStaleRequests removes the current user's requests and replies that were left behind when their processes
// were killed.
func (d *Dir) removeStaleRequests() {
	for _, kind := range []string{kindRequest, kindReply} {
		l := d.newReader(nil)
		l.readKind(kind, func(entry) {})
		l.removeStale(time.Now())
	}
}

// PostReply writes the first reply to a request. It returns unix.EEXIST if another helper of
// the job has replied already.
func (d *Dir) PostReply(id string, a job.ControlReply) (*PostedFile, error) {
	s, name, err := d.writeReply(id, a)
	if err != nil {
		return nil, err
	}
	if err := s.publish(name); err != nil {
		s.remove()
		return nil, err
	}
	return &PostedFile{id, s}, nil
}

// ReplaceReply atomically replaces a reply with another reply (survive.md SV-26). The new file is locked before it
// gets its name. ReplaceReply returns the reply that is valid afterwards. After an error, this is the old reply.
func (d *Dir) ReplaceReply(old *PostedFile, a job.ControlReply) (*PostedFile, error) {
	s, name, err := d.writeReply(old.ID, a)
	if err != nil {
		return old, err
	}
	if err := s.replace(name); err != nil {
		s.remove()
		return old, err
	}
	old.file.remove() // its name belongs to the new file now
	return &PostedFile{old.ID, s}, nil
}

// writeReply writes a reply to a file and locks the file, but does not give the file its name yet. It returns that
// name.
func (d *Dir) writeReply(id string, a job.ControlReply) (s *ownFile, name string, err error) {
	name = kindReply + id
	if err := errors.Join(checkReplyID(id), checkReply(a), checkOwner(a.UID)); err != nil {
		return nil, "", fmt.Errorf("reply: %w", err)
	}
	text, err := encode(replyText{name, a, a.Ranks, (*replyStacks)(a.Stacks)})
	if err != nil {
		return nil, "", fmt.Errorf("reply: %w", err)
	}
	if s, err = d.newUnnamed(); err != nil {
		return nil, "", err
	}
	s.private = a.Stacks != nil
	if err = s.write(text); err == nil {
		err = s.lock()
	}
	if err != nil {
		s.remove()
		return nil, "", err
	}
	return s, name, nil
}

// ReadReply reads the reply to a request. Only a reply that was written by owner, the user of the job, is read. A
// reply of more than maxBytes bytes is ignored. found is false if there is no reply.
func (d *Dir) ReadReply(id string, owner, maxBytes int) (a job.ControlReply, found bool) {
	all, _ := d.listUserDirs(time.Now().Add(d.ReadTime)) // the directories that were found are enough
	_, random, _ := strings.Cut(id, "-")
	for _, s := range all {
		if s.uid != owner {
			continue
		}
		for _, name := range []string{id, random} { // a job of an older version names the reply by the random part
			if a, found = d.readReplyFrom(s, kindReply+name, maxBytes); found {
				return a, true
			}
		}
	}
	return a, false
}

// UserName returns the name of a user on this node, or "uid N" if the user has no name.
func (d *Dir) UserName(uid int) string { return d.userName(uid) }

func (d *Dir) readReplyFrom(s userDir, name string, maxBytes int) (a job.ControlReply, found bool) {
	dir, err := d.openUserDir(s)
	if err != nil {
		return a, false
	}
	defer unix.Close(dir)
	e, err := d.readEntry(dir, s, name, nil)
	if err != nil || len(e.text) > maxBytes {
		return a, false
	}
	a, err = decodeReply(name, s.uid, e.text)
	return a, err == nil
}

// StillWaits reports whether the process that has made a request is still waiting for the reply.
func (d *Dir) StillWaits(a FoundRequest) bool { return d.isAlive(a.entry) }

// These constants limit how requests are read (rule SV-25). At most maxRequestsPerUser requests of each user are
// read, and one request of each user is handled per requestInterval. The requests of all users are read at most
// once per minRequestInterval.
const (
	maxRequestsPerUser = 16
	requestInterval    = time.Second
	minRequestInterval = 100 * time.Millisecond
)

// WatchRequests calls the function handle for each new request to a job of the current user. It returns an error when
// ctx is done or the directory can no longer be read.
func (d *Dir) WatchRequests(ctx context.Context, id job.ID, handle func(FoundRequest)) error {
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
			handle(a)
		}
		if err := w.waitForNames(ctx, pause); err != nil {
			return err
		}
	}
}

// readRequests returns the requests to a job that are not in handled, at most maxRequestsPerUser of each user.
// remaining contains the requests in handled that still exist.
func (d *Dir) readRequests(w *watcher, id job.ID, handled map[string]bool) (found []FoundRequest, remaining map[string]bool, err error) {
	for {
		fresh := false
		found, remaining = nil, make(map[string]bool)
		l := d.newReader(handled)
		l.maxPerUser, l.stillThere = maxRequestsPerUser, remaining
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
			return found, remaining, err
		}
	}
}

// requestingUsers returns, for each request, the user whose limits apply to the request. All uids without an
// account count as one user, because a single user can have 65,536 such uids.
func (d *Dir) requestingUsers(requests []FoundRequest) (users []int) {
	for _, a := range requests {
		user := a.UID
		if user != os.Geteuid() {
			user = d.users().userOf(user)
		}
		users = append(users, user)
	}
	return users
}

// nextRequests chooses the requests to handle now: at most one per user in each requestInterval. pause is the time
// until the next request may be handled, or 0 if there is none.
func nextRequests(requests []FoundRequest, users []int, lastTimes map[int]time.Time, now time.Time) (chosen []FoundRequest, pause time.Duration) {
	for i, a := range requests {
		if before, any := lastTimes[users[i]]; any && now.Sub(before) < requestInterval {
			if left := requestInterval - now.Sub(before); pause == 0 || left < pause {
				pause = left
			}
			continue
		}
		lastTimes[users[i]] = now
		chosen = append(chosen, a)
	}
	return chosen, pause
}

// waitForNames waits until a name is added to or removed from the directory. If pause is not 0, it waits at
// most that long.
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

// decodeRequest decodes a request from the contents of a file with the given name and owner. The result random is a
// part of the file name.
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
		return a, "", fmt.Errorf("the file belongs to job %.60q", t.Job)
	}
	t.User = truncate(t.User)
	return t.ControlRequest, random, checkRandom(random)
}

// decodeReply decodes a reply from the contents of a file with the given name and owner.
func decodeReply(name string, owner int, text []byte) (a job.ControlReply, err error) {
	var t replyText
	if err := decodeAs(name, owner, text, &t, func() (string, int) { return t.File, t.UID }); err != nil {
		return a, err
	}
	a = t.ControlReply
	a.Text, a.Ranks, a.Stacks = truncate(a.Text), t.Ranks, (*job.StackReport)(t.Stacks)
	return a, checkReply(a)
}
