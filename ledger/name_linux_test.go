package ledger

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A name is found by other processes of its user while its publisher lives, and removed with it. It is published once.
func TestPublishedName(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	one, two := newActor(t, dir, 0), newActor(t, dir, 0)
	two.want("false <nil>", "find", "svc")
	one.want("ok", "publish", "svc", "p1")
	two.want("p1", "find", "svc")
	two.want("p1", "find", "svc")
	two.want(ErrNameTaken.Error(), "publish", "svc", "p2")
	two.want("ok", "publish", "other", "p3")
	one.want("p3", "find", "other")
	one.want("ok", "unpublish")
	two.want("false <nil>", "find", "svc")
	one.want("ok", "publish", "svc", "p4")
	one.kill()
	two.want("false <nil>", "find", "svc")
	two.want("ok", "publish", "svc", "p5")
	two.kill()
	if h, err := b.PublishName(t.Context(), nameOf("last", "p", false), true); err != nil {
		t.Error(err)
	} else if err := h.Remove(); err != nil {
		t.Error(err)
	}
	if left := files(t, b, ""); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// The first look-up takes a name with Once; of many at the same time only one finds it.
func TestNameThatIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	for range 20 {
		h, err := b.PublishName(t.Context(), nameOf("svc", "p", true), true)
		if err != nil {
			t.Fatal(err)
		}
		if !h.IsPublished() {
			t.Error("it is gone before it is read")
		}
		found := make(chan bool)
		for range 8 {
			go func() {
				_, ok, err := b.FindName([]byte("svc"), false)
				if err != nil {
					t.Error(err)
				}
				found <- ok
			}()
		}
		count := 0
		for range 8 {
			if <-found {
				count++
			}
		}
		if count != 1 || h.IsPublished() {
			t.Errorf("found %d times, still there %v", count, h.IsPublished())
		}
		h.Remove()
	}
}

// Of processes that publish a name at the same time, one succeeds.
func TestNameIsPublishedByOne(t *testing.T) {
	dir, umpire := t.TempDir(), filepath.Join(t.TempDir(), "published")
	var rivals []*actor
	for range 4 {
		rivals = append(rivals, newActor(t, dir, 0))
	}
	for _, a := range rivals {
		a.tell("publish-many", "svc", "300", umpire)
	}
	all := 0
	for _, a := range rivals {
		wins, err := strconv.Atoi(a.hear())
		if err != nil {
			t.Error(err)
		}
		all += wins
	}
	if all == 0 {
		t.Error("nobody has published it")
	}
}

// A rank that waits for a name is told of it within a moment, with and without inotify.
func TestNamesAreWatched(t *testing.T) {
	for _, without := range []bool{false, true} {
		b := open(t, t.TempDir())
		b.testWithout.inotify = without
		ctx, stop := context.WithCancel(t.Context())
		changed, done := make(chan bool, 100), make(chan error)
		go func() { done <- b.WatchNames(ctx, true, func() { changed <- true }) }()
		<-changed
		h, err := b.PublishName(t.Context(), nameOf("svc", "p", false), true)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-changed:
		case <-time.After(time.Minute):
			t.Error("no change was noticed")
		}
		h.Remove()
		stop()
		if err := <-done; err != context.Canceled {
			t.Error(err)
		}
	}
}

// Names of another user do not count unless the looking side says so; then the user's own come first. No user can hide
// names of others, take the name away, or make entries that are not his.
func TestNamesOfOtherUsers(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	evil, ann := newActor(t, dir, stranger), newActor(t, dir, stranger+1)
	ann.want("ok", "publish", "private", "p")
	evil.want("false <nil>", "find", "private", "all")
	if n, ok, err := b.FindName([]byte("private"), true); ok || err != nil { // not even root, by mistake
		t.Errorf("%+v, %v", n, err)
	}
	ann.want("p", "find", "private")
	ann.want("ok", "unpublish")
	evil.want("ok", "publish-for-all", "svc", "evil")
	ann.want("false <nil>", "find", "svc")
	ann.want("evil", "find", "svc", "all")
	ann.want("ok", "publish", "svc", "good")
	ann.want("good", "find", "svc")
	ann.want("good", "find", "svc", "all")
	evil.want("evil", "find", "svc", "all")
	if n, ok, err := b.FindName([]byte("svc"), true); !ok || err != nil || string(n.Port) != "evil" || n.UID != stranger {
		t.Errorf("the oldest of others: %+v, %v, %v", n, ok, err)
	}
	for _, name := range files(t, b, kindName) {
		if !strings.HasPrefix(filepath.Base(filepath.Dir(name)), fmt.Sprint(b.prefix, stranger+1)) {
			continue
		}
		if got := evil.ask("remove", name); got == "ok" {
			t.Error("another user has removed a name")
		}
		if got := evil.ask("writelock", name); got == "ok" {
			t.Error("another user has locked a name")
		}
	}
	own := evil.ask("userdir")
	forged := nameOf("svc2", "forged", false)
	forged.UID = stranger + 1
	name := nameFilePrefix(forged.Name) + randomName()
	text, _ := encode(nameText{name, forged})
	evil.want("ok", "write", filepath.Join(own, name), pack(text))
	ann.want("false <nil>", "find", "svc2", "all")
	evil.want("ok", "mkdir", filepath.Join(own, namesLockFile)) // in its own directory only
	ann.want("ok", "unpublish")
	ann.want("ok", "publish", "svc", "again")
}

// Names that are too long are refused, also in the entries of others, and a flood of entries of one name costs little.
func TestHostileNames(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	long := nameOf(strings.Repeat("n", maxNameBytes), "p", false)
	if _, err := b.PublishName(t.Context(), long, true); err != ErrNameTooLong {
		t.Error(err)
	}
	evil := newActor(t, dir, stranger)
	own := evil.ask("userdir")
	for i, text := range []string{`","job":"j","uid":%d,"name":"c3Zj","port":"` + strings.Repeat("A", 6<<10) + `"}`, `","job":"../x","uid":%d,"name":"c3Zj"}`,
		`","job":"j","uid":%d,"name":"c3ZqCg=="}`, `","job":"j","uid":%d,"name":"c3Zj","port":"` + strings.Repeat("A", maxNameText) + `"}`} {
		name := fmt.Sprintf("%s%016x", nameFilePrefix([]byte("svc")), i)
		evil.want("ok", "write", filepath.Join(own, name), pack([]byte(`{"file":"`+name+fmt.Sprintf(text, stranger))))
	}
	if n, ok, err := b.FindName([]byte("svc"), true); ok || err != nil {
		t.Errorf("%+v, %v", n, err)
	}
	first := filepath.Join(own, nameFilePrefix([]byte("svc"))+"f")
	if err := os.WriteFile(first, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range 9000 {
		if err := os.Link(first, fmt.Sprint(first, i)); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if _, ok, _ := b.FindName([]byte("svc"), true); ok {
		t.Error("found among junk")
	}
	if _, ok, _ := b.FindName([]byte("svc"), false); ok {
		t.Error("found among junk")
	}
	t.Logf("two look-ups beside 9,000 junk entries take %v", time.Since(began))
	if h, err := b.PublishName(t.Context(), nameOf("svc", "mine", false), true); err != nil {
		t.Error(err)
	} else {
		defer h.Remove()
	}
	if n, ok, err := b.FindName([]byte("svc"), true); !ok || err != nil || string(n.Port) != "mine" {
		t.Errorf("%+v, %v, %v", n, ok, err)
	}
}
