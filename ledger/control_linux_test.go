package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

func askOf(id job.ID, verb job.Verb) job.ControlRequest {
	return job.ControlRequest{Job: id, Owner: os.Geteuid(), UID: os.Geteuid(), Verb: verb, Since: time.Now()}
}

// hearing collects the requests to a job until the test ends.
func hearing(t *testing.T, b *Dir, id job.ID) <-chan FoundRequest {
	received := make(chan FoundRequest, 1000)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- b.WatchRequests(ctx, id, func(a FoundRequest) { received <- a }) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return received
}

// A request reaches only its job, and is answered until the final reply, with inotify or without.
func TestRequestAndReply(t *testing.T) {
	for _, blind := range []bool{false, true} {
		b := open(t, shared(t))
		b.testWithout.inotify = blind
		received, others := hearing(t, b, "j"), hearing(t, b, "j-k")
		request, err := b.PostRequest(askOf("j", job.VerbEnd))
		if err != nil {
			t.Fatal(err)
		}
		a := <-received
		if a.Job != "j" || a.Verb != job.VerbEnd || a.ID != request.ID || a.UID != os.Geteuid() || !b.StillWaits(a) {
			t.Errorf("%+v", a)
		}
		if _, found := b.ReadReply(request.ID, os.Geteuid(), maxText); found {
			t.Error("answered already")
		}
		answer := job.ControlReply{Job: "j", UID: os.Geteuid(), State: job.ReplyAccepted, Text: "one"}
		given, err := b.PostReply(a.ID, answer)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.PostReply(a.ID, answer); !errors.Is(err, unix.EEXIST) {
			t.Error("answered twice: ", err)
		}
		for _, text := range []string{"one", "two", "three"} {
			answer.Text = text
			if given, err = b.ReplaceReply(given, answer); err != nil {
				t.Fatal(err)
			}
			if got, found := b.ReadReply(request.ID, os.Geteuid(), maxText); !found || got.Text != text {
				t.Errorf("%+v, %v; want %s", got, found, text)
			}
		}
		if err := errors.Join(given.Drop(), request.Drop()); err != nil || b.StillWaits(a) {
			t.Error(err, b.StillWaits(a))
		}
		if left := files(t, b, ""); len(left) > 0 || len(others) > 0 {
			t.Errorf("left: %q; %d asks went astray", left, len(others))
		}
	}
}

// One request per second and user is taken up, whatever others do.
func TestNextRequests(t *testing.T) {
	ask := func(uid int, id string) FoundRequest {
		return FoundRequest{ControlRequest: job.ControlRequest{UID: uid}, ID: id}
	}
	now, last := time.Unix(1000, 0), make(map[int]time.Time)
	for _, test := range []struct {
		after time.Duration
		asks  []FoundRequest
		want  string
		pause time.Duration
	}{
		{0, nil, "", 0},
		{0, []FoundRequest{ask(1, "a"), ask(1, "b"), ask(2, "c")}, "a c", time.Second},
		{300 * time.Millisecond, []FoundRequest{ask(1, "b"), ask(3, "d")}, "d", 700 * time.Millisecond},
		{600 * time.Millisecond, []FoundRequest{ask(1, "b")}, "", 100 * time.Millisecond},
		{100 * time.Millisecond, []FoundRequest{ask(1, "b"), ask(2, "e")}, "b e", 0},
		{2 * time.Second, []FoundRequest{ask(101, "f"), ask(201, "g"), ask(2, "h")}, "f h", time.Second},
	} {
		now = now.Add(test.after)
		var users []int
		for _, a := range test.asks {
			users = append(users, a.UID%100) // 101 and 201 count as user 1
		}
		chosen, pause := nextRequests(test.asks, users, last, now)
		var names []string
		for _, a := range chosen {
			names = append(names, a.ID)
		}
		if got := strings.Join(names, " "); got != test.want || pause != test.pause {
			t.Errorf("%v: %q after %v, want %q after %v", now, got, pause, test.want, test.pause)
		}
	}
}

// Files of a hostile user are no requests of other users, delay no request, and count as no more than
// a few requests of that user: forged names, links, pipes, huge and dead files, thousands of them.
func TestHostileRequests(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	const id = "00112233aabbcc"
	theirs := filepath.Join(dir, fmt.Sprint(b.prefix, stranger))
	s := &stage{b: b}
	defer s.close()
	if err := errors.Join(os.Mkdir(theirs, 0o755), os.Chown(theirs, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	n := 0
	plant := func(a job.ControlRequest, change func(text string) string) {
		n++
		name := fmt.Sprintf("%s%s%02x", requestNamePrefix("j"), id, n)
		text, _ := encode(requestText{name, a})
		path := filepath.Join(theirs, name)
		if err := errors.Join(s.evil("write", []string{path, change(string(text))}), os.Chown(path, stranger, stranger)); err != nil {
			t.Fatal(err)
		}
	}
	same := func(text string) string { return text }
	forged := askOf("j", job.VerbEnd) // as if from root
	his := forged
	his.UID = stranger
	plant(forged, same)
	plant(his, func(text string) string { return text + strings.Repeat(" ", maxRequestBytes) })
	plant(his, func(string) string { return strings.Repeat("[", maxRequestBytes-1) })
	plant(his, func(text string) string { return strings.Replace(text, `"end"`, `"format the disk"`, 1) })
	plant(his, func(text string) string { return strings.Replace(text, `"job":"j"`, `"job":"../j"`, 1) })
	err := errors.Join(unix.Mkfifo(filepath.Join(theirs, requestNamePrefix("j")+id+"f0"), 0o644), os.Symlink("/dev/zero", filepath.Join(theirs, requestNamePrefix("j")+id+"f1")),
		os.Symlink("ask-j-"+id+"f2", filepath.Join(theirs, requestNamePrefix("j")+id+"f2")), os.WriteFile(filepath.Join(theirs, requestNamePrefix("j")+id+"f3"), []byte("{}"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	received := hearing(t, b, "j")
	want := func() {
		t.Helper()
		request, err := b.PostRequest(askOf("j", job.VerbStatus))
		if err != nil {
			t.Fatal(err)
		}
		defer request.Drop()
		if a := <-received; a.ID != request.ID {
			t.Errorf("received %+v", a)
		}
	}
	want()
	for range 3 * maxRequestsPerUser { // valid ones, but too many
		plant(his, same)
	}
	asks, _, err := b.readRequests(newWatcher(b), "j", nil)
	if got := len(asks); err != nil || got > maxRequestsPerUser {
		t.Errorf("%d asks of one user are looked at, %v", got, err)
	}
	if i := slices.IndexFunc(asks, func(a FoundRequest) bool { return a.UID != stranger }); i >= 0 {
		t.Errorf("taken for another's: %+v", asks[i])
	}
	if err := flood(filepath.Join(theirs, "ask-j-x"), maxFiles+1); err != nil {
		t.Fatal(err)
	}
	for range 2 { // requests of root still arrive
		request, err := b.PostRequest(askOf("j", job.VerbStatus))
		if err != nil {
			t.Fatal(err)
		}
		for a := range received {
			if a.ID == request.ID {
				break
			}
			if a.UID != stranger {
				t.Errorf("received %+v", a)
			}
		}
		request.Drop()
	}
}

// A user who copies the name of another user's request gets a reply of his own and does not disturb the other.
func TestTwoRequestsOfOneName(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	received := hearing(t, b, "j")
	request, err := b.PostRequest(askOf("j", job.VerbEnd))
	if err != nil {
		t.Fatal(err)
	}
	defer request.Drop()
	theirs := filepath.Join(dir, fmt.Sprint(b.prefix, stranger))
	s := &stage{b: b}
	defer s.close()
	a := askOf("j", job.VerbEnd)
	a.UID = stranger
	name := filepath.Base(files(t, b, kindRequest)[0])
	text, _ := encode(requestText{name, a})
	path := filepath.Join(theirs, name)
	if err := errors.Join(os.Mkdir(theirs, 0o755), os.Chown(theirs, stranger, stranger), s.evil("write", []string{path, string(text)}), os.Chown(path, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a := <-received
		answer, err := b.PostReply(a.ID, job.ControlReply{Job: "j", UID: os.Geteuid(), State: job.ReplyRefused, Text: fmt.Sprint("to ", a.UID)})
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Drop()
	}
	if got, found := b.ReadReply(request.ID, os.Geteuid(), 1<<10); !found || got.Text != "to 0" {
		t.Errorf("root reads %q, %v", got.Text, found)
	}
	if _, found := b.ReadReply(request.ID, os.Geteuid(), 10); found {
		t.Error("an answer is read that is longer than wanted")
	}
}

// All requesters without an account count as one user, however many uids they have.
func TestRequestersWithoutAccount(t *testing.T) {
	b := open(t, shared(t))
	b.etcDir = etc(t, "root:x:0:0::/:/bin/sh\nann:x:5:5::/:/bin/sh\n", "ann:100000:65536\n", "passwd: files")
	asks := []FoundRequest{{ControlRequest: job.ControlRequest{UID: 5}}, {ControlRequest: job.ControlRequest{UID: 100_001}}, {ControlRequest: job.ControlRequest{UID: 100_002}}, {ControlRequest: job.ControlRequest{UID: os.Geteuid()}}}
	if got := b.requestingUsers(asks); !slices.Equal(got, []int{5, noUser, noUser, os.Geteuid()}) {
		t.Errorf("%d", got)
	}
}
