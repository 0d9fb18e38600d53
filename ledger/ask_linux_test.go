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

func askOf(id job.ID, verb job.Verb) job.Ask {
	return job.Ask{Job: id, Owner: os.Geteuid(), UID: os.Geteuid(), Verb: verb, Since: time.Now()}
}

// hearing hears the asks of a job until the test ends.
func hearing(t *testing.T, b *Dir, id job.ID) <-chan FoundAsk {
	heard := make(chan FoundAsk, 1000)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- b.HearAsks(ctx, id, func(a FoundAsk) { heard <- a }) }()
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
		b.without.inotify = blind
		heard, others := hearing(t, b, "j"), hearing(t, b, "j-k")
		slip, err := b.Ask(askOf("j", job.AskEnd))
		if err != nil {
			t.Fatal(err)
		}
		a := <-heard
		if a.Job != "j" || a.Verb != job.AskEnd || a.ID != slip.ID || a.UID != os.Geteuid() || !b.Waits(a) {
			t.Errorf("%+v", a)
		}
		if _, found := b.Answer(slip.ID, os.Geteuid(), maxText); found {
			t.Error("answered already")
		}
		answer := job.Answer{Job: "j", UID: os.Geteuid(), State: job.AskTaken, Text: "one"}
		given, err := b.Respond(a.ID, answer)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Respond(a.ID, answer); !errors.Is(err, unix.EEXIST) {
			t.Error("answered twice: ", err)
		}
		for _, text := range []string{"one", "two", "three"} {
			answer.Text = text
			if given, err = b.Rewrite(given, answer); err != nil {
				t.Fatal(err)
			}
			if got, found := b.Answer(slip.ID, os.Geteuid(), maxText); !found || got.Text != text {
				t.Errorf("%+v, %v; want %s", got, found, text)
			}
		}
		if err := errors.Join(given.Drop(), slip.Drop()); err != nil || b.Waits(a) {
			t.Error(err, b.Waits(a))
		}
		if left := files(t, b, ""); len(left) > 0 || len(others) > 0 {
			t.Errorf("left: %q; %d asks went astray", left, len(others))
		}
	}
}

// Of each user one ask a second is taken up, whatever others do.
func TestWhoseAskIsNext(t *testing.T) {
	ask := func(uid int, id string) FoundAsk { return FoundAsk{Ask: job.Ask{UID: uid}, ID: id} }
	now, last := time.Unix(1000, 0), make(map[int]time.Time)
	for _, test := range []struct {
		after time.Duration
		asks  []FoundAsk
		want  string
		pause time.Duration
	}{
		{0, nil, "", 0},
		{0, []FoundAsk{ask(1, "a"), ask(1, "b"), ask(2, "c")}, "a c", time.Second},
		{300 * time.Millisecond, []FoundAsk{ask(1, "b"), ask(3, "d")}, "d", 700 * time.Millisecond},
		{600 * time.Millisecond, []FoundAsk{ask(1, "b")}, "", 100 * time.Millisecond},
		{100 * time.Millisecond, []FoundAsk{ask(1, "b"), ask(2, "e")}, "b e", 0},
		{2 * time.Second, []FoundAsk{ask(101, "f"), ask(201, "g"), ask(2, "h")}, "f h", time.Second},
	} {
		now = now.Add(test.after)
		var users []int
		for _, a := range test.asks {
			users = append(users, a.UID%100) // 101 and 201 count as user 1
		}
		chosen, pause := nextAsks(test.asks, users, last, now)
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
	plant := func(a job.Ask, change func(text string) string) {
		n++
		name := fmt.Sprintf("%s%s%02x", askName("j"), id, n)
		text, _ := encode(askText{name, a})
		path := filepath.Join(theirs, name)
		if err := errors.Join(s.evil("write", []string{path, change(string(text))}), os.Chown(path, stranger, stranger)); err != nil {
			t.Fatal(err)
		}
	}
	same := func(text string) string { return text }
	forged := askOf("j", job.AskEnd) // of root
	his := forged
	his.UID = stranger
	plant(forged, same)
	plant(his, func(text string) string { return text + strings.Repeat(" ", maxAsk) })
	plant(his, func(string) string { return strings.Repeat("[", maxAsk-1) })
	plant(his, func(text string) string { return strings.Replace(text, `"end"`, `"format the disk"`, 1) })
	plant(his, func(text string) string { return strings.Replace(text, `"job":"j"`, `"job":"../j"`, 1) })
	err := errors.Join(unix.Mkfifo(filepath.Join(theirs, askName("j")+id+"f0"), 0o644), os.Symlink("/dev/zero", filepath.Join(theirs, askName("j")+id+"f1")),
		os.Symlink("ask-j-"+id+"f2", filepath.Join(theirs, askName("j")+id+"f2")), os.WriteFile(filepath.Join(theirs, askName("j")+id+"f3"), []byte("{}"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	heard := hearing(t, b, "j")
	want := func() {
		t.Helper()
		slip, err := b.Ask(askOf("j", job.AskStatus))
		if err != nil {
			t.Fatal(err)
		}
		defer slip.Drop()
		if a := <-heard; a.ID != slip.ID {
			t.Errorf("heard %+v", a)
		}
	}
	want()
	for range 3 * mostAsks { // right ones, of which he has too many
		plant(his, same)
	}
	asks, _, err := b.asks(newWatcher(b), "j", nil)
	if got := len(asks); err != nil || got > mostAsks {
		t.Errorf("%d asks of one user are looked at, %v", got, err)
	}
	if i := slices.IndexFunc(asks, func(a FoundAsk) bool { return a.UID != stranger }); i >= 0 {
		t.Errorf("taken for another's: %+v", asks[i])
	}
	if err := flood(filepath.Join(theirs, "ask-j-x"), maxFiles+1); err != nil {
		t.Fatal(err)
	}
	for range 2 { // root's are heard all the same
		slip, err := b.Ask(askOf("j", job.AskStatus))
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
	slip, err := b.Ask(askOf("j", job.AskEnd))
	if err != nil {
		t.Fatal(err)
	}
	defer slip.Drop()
	theirs := filepath.Join(dir, fmt.Sprint(b.prefix, stranger))
	s := &stage{b: b}
	defer s.close()
	a := askOf("j", job.AskEnd)
	a.UID = stranger
	name := filepath.Base(files(t, b, kindAsk)[0])
	text, _ := encode(askText{name, a})
	path := filepath.Join(theirs, name)
	if err := errors.Join(os.Mkdir(theirs, 0o755), os.Chown(theirs, stranger, stranger), s.evil("write", []string{path, string(text)}), os.Chown(path, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a := <-heard
		answer, err := b.Respond(a.ID, job.Answer{Job: "j", UID: os.Geteuid(), State: job.AskRefused, Text: fmt.Sprint("to ", a.UID)})
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Drop()
	}
	if got, found := b.Answer(slip.ID, os.Geteuid(), 1<<10); !found || got.Text != "to 0" {
		t.Errorf("root reads %q, %v", got.Text, found)
	}
	if _, found := b.Answer(slip.ID, os.Geteuid(), 10); found {
		t.Error("an answer is read that is longer than wanted")
	}
}

// Askers without an account count as one, however many numbers somebody has.
func TestAskersWithoutAnAccount(t *testing.T) {
	b := open(t, shared(t))
	b.etc = etc(t, "root:x:0:0::/:/bin/sh\nann:x:5:5::/:/bin/sh\n", "ann:100000:65536\n", "passwd: files")
	asks := []FoundAsk{{Ask: job.Ask{UID: 5}}, {Ask: job.Ask{UID: 100_001}}, {Ask: job.Ask{UID: 100_002}}, {Ask: job.Ask{UID: os.Geteuid()}}}
	if got := b.askingUsers(asks); !slices.Equal(got, []int{5, nobody, nobody, os.Geteuid()}) {
		t.Errorf("%d", got)
	}
}
