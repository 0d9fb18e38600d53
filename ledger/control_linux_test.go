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

// hearing hears the asks of a job until the test ends.
func hearing(t *testing.T, b *Dir, id job.ID) <-chan FoundRequest {
	heard := make(chan FoundRequest, 1000)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- b.WatchRequests(ctx, id, func(a FoundRequest) { heard <- a }) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return heard
}

// An ask is heard by its job alone, and answered until the last word; with inotify or without.
func TestAsk(t *testing.T) {
	for _, blind := range []bool{false, true} {
		b := open(t, shared(t))
		b.testWithout.inotify = blind
		heard, others := hearing(t, b, "j"), hearing(t, b, "j-k")
		slip, err := b.PostRequest(askOf("j", job.VerbEnd))
		if err != nil {
			t.Fatal(err)
		}
		a := <-heard
		if a.Job != "j" || a.Verb != job.VerbEnd || a.ID != slip.ID || a.UID != os.Geteuid() || !b.StillWaits(a) {
			t.Errorf("%+v", a)
		}
		if _, found := b.ReadReply(slip.ID, os.Geteuid(), maxText); found {
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
			if got, found := b.ReadReply(slip.ID, os.Geteuid(), maxText); !found || got.Text != text {
				t.Errorf("%+v, %v; want %s", got, found, text)
			}
		}
		if err := errors.Join(given.Drop(), slip.Drop()); err != nil || b.StillWaits(a) {
			t.Error(err, b.StillWaits(a))
		}
		if left := files(t, b, ""); len(left) > 0 || len(others) > 0 {
			t.Errorf("left: %q; %d asks went astray", left, len(others))
		}
	}
}

// Of each user one ask a second is taken up, whatever others do.
func TestWhoseAskIsNext(t *testing.T) {
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

// What another user puts there is no ask of anybody else's, keeps nobody waiting, and is no more than
// a few of his: forged names, links, pipes, huge and dead files, thousands of them.
func TestHostileAsks(t *testing.T) {
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
	forged := askOf("j", job.VerbEnd) // of root
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
	heard := hearing(t, b, "j")
	want := func() {
		t.Helper()
		slip, err := b.PostRequest(askOf("j", job.VerbStatus))
		if err != nil {
			t.Fatal(err)
		}
		defer slip.Drop()
		if a := <-heard; a.ID != slip.ID {
			t.Errorf("heard %+v", a)
		}
	}
	want()
	for range 3 * maxRequestsPerUser { // right ones, of which he has too many
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
	for range 2 { // root's are heard all the same
		slip, err := b.PostRequest(askOf("j", job.VerbStatus))
		if err != nil {
			t.Fatal(err)
		}
		for a := range heard {
			if a.ID == slip.ID {
				break
			}
			if a.UID != stranger {
				t.Errorf("heard %+v", a)
			}
		}
		slip.Drop()
	}
}

// Whoever copies the name of another user's ask has an answer of his own, and nothing to do with the other's.
func TestTwoAsksOfOneName(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	heard := hearing(t, b, "j")
	slip, err := b.PostRequest(askOf("j", job.VerbEnd))
	if err != nil {
		t.Fatal(err)
	}
	defer slip.Drop()
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
		a := <-heard
		answer, err := b.PostReply(a.ID, job.ControlReply{Job: "j", UID: os.Geteuid(), State: job.ReplyRefused, Text: fmt.Sprint("to ", a.UID)})
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Drop()
	}
	if got, found := b.ReadReply(slip.ID, os.Geteuid(), 1<<10); !found || got.Text != "to 0" {
		t.Errorf("root reads %q, %v", got.Text, found)
	}
	if _, found := b.ReadReply(slip.ID, os.Geteuid(), 10); found {
		t.Error("an answer is read that is longer than wanted")
	}
}

// Askers without an account count as one, however many numbers somebody has.
func TestAskersWithoutAnAccount(t *testing.T) {
	b := open(t, shared(t))
	b.etcDir = etc(t, "root:x:0:0::/:/bin/sh\nann:x:5:5::/:/bin/sh\n", "ann:100000:65536\n", "passwd: files")
	asks := []FoundRequest{{ControlRequest: job.ControlRequest{UID: 5}}, {ControlRequest: job.ControlRequest{UID: 100_001}}, {ControlRequest: job.ControlRequest{UID: 100_002}}, {ControlRequest: job.ControlRequest{UID: os.Geteuid()}}}
	if got := b.requestingUsers(asks); !slices.Equal(got, []int{5, noUser, noUser, os.Geteuid()}) {
		t.Errorf("%d", got)
	}
}
