package ledger

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// sea makes a directory like /var/tmp, on a file system of its own.
func sea(t *testing.T, options string) string {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	if err := unix.Mount("flood", dir, "tmpfs", 0, options); err != nil {
		t.Skip("cannot mount: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// flood makes many names of one file in a directory, since it is names that cost a
// reader time.
func flood(prefix string, count int) error {
	first := prefix + "0"
	if err := os.WriteFile(first, nil, 0o644); err != nil {
		return err
	}
	for i := 1; i < count; i++ {
		if err := unix.Link(first, fmt.Sprint(prefix, i)); err != nil {
			return err
		}
	}
	return nil
}

// fill makes valid claims of the largest size until a user has reached the limit. It keeps
// them locked.
func (s *stage) fill() error {
	fd, _, err := s.b.openOwnDir()
	if err != nil {
		return err
	}
	unix.Close(fd)
	for size := 0; size < maxBytes; {
		c := claimOf("big")
		for rank := range s.b.maxForeignRanks() {
			c.Ranks = append(c.Ranks, job.ClaimedRank{Rank: rank})
		}
		big, err := s.b.publishClaim(c)
		if err != nil {
			return err
		}
		size += big.size
	}
	return nil
}

// cost returns the CPU time that f takes in this process. Wall time would depend on what else runs on the machine.
func cost(t *testing.T, f func()) time.Duration {
	t.Helper()
	spent := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	began := spent()
	f()
	return spent() - began
}

// cheapest returns the least cost of several runs, without what else this process had to do.
func cheapest(t *testing.T, b *Dir) time.Duration {
	t.Helper()
	least := time.Duration(math.MaxInt64)
	for range 5 {
		least = min(least, cost(t, func() { start(t, b) }))
	}
	return least
}

// A million and a half names in the ledger directory hardly delay a start,
// and hide no user's entries from root or other users (TRUST-14). If a user fills his
// own directory, none of his entries counts, and the error has his name.
func TestFlood(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 1.8 million files; make test runs it")
	}
	dir := sea(t, "nr_inodes=0,mode=1777")
	b := open(t, dir)
	b.etcDir = etc(t, fmt.Sprintf("evil:x:%d:5::/:/bin/sh\nann:x:%d:5::/:/bin/sh\nben:x:%d:5::/:/bin/sh\n", stranger, stranger+1, stranger+2), "", "")
	honest, other, evil := newActor(t, dir, stranger+1), newActor(t, dir, stranger+2), newActor(t, dir, stranger)
	honest.want("ok", "take", "honest", "1")
	evil.want("ok", "take", "evil", "2")
	wantClaims(t, b, "honest", "evil")
	empty := cheapest(t, b)
	evil.want("ok", "flood", filepath.Join(dir, b.prefix+"junk-"), 1_500_000)
	full := cheapest(t, b)
	if full-empty > 500*time.Millisecond {
		t.Errorf("with 1,500,000 names a start costs %v more", full-empty)
	}
	t.Logf("a start costs %v, without %v", full, empty)
	wantClaims(t, b, "honest", "evil")
	other.want("honest evil", "claims")
	other.want("taken", "take", "other", "1")
	other.want("ok", "take", "other", "3") // makes a user directory while it is flooded
	wantClaims(t, b, "honest", "evil", "other")

	userDir := evil.ask("userdir")
	evil.want("ok", "flood", filepath.Join(userDir, kindClaim), 300_000)
	for try := range 2 {
		o, err := b.ReadOthers(nil)
		var limit *LimitError
		if !errors.As(err, &limit) || limit.Error() != dir+" has too many files of user evil (there are more than 10,000 files); an administrator can remove them" {
			t.Errorf("try %d: %v", try, err)
		}
		if o.OtherUsersClaims != 2 {
			t.Errorf("try %d: %d jobs, want those of two others", try, o.OtherUsersClaims)
		}
	}
	if got := evil.ask("take", "more", "5"); !strings.Contains(got, "too many") {
		t.Errorf("the flooder is told %q", got)
	}
	if got := evil.ask("unflood", filepath.Join(userDir, kindClaim)); got != "ok" {
		t.Fatal(got)
	}
	if o, err := b.ReadOthers(nil); err != nil || o.OtherUsersClaims != 4 {
		t.Errorf("removed again: %d jobs, %v", o.OtherUsersClaims, err)
	}
}

// If users' processes are hidden and the directory cannot be read to its end, entries may be
// missed: this is reported.
func TestFloodAmongHiddenProcesses(t *testing.T) {
	dir := sea(t, "nr_inodes=0,mode=1777")
	evil, other := newActor(t, dir, stranger), newActor(t, dir, stranger+1)
	b := open(t, dir)
	evil.want("ok", "flood", filepath.Join(dir, b.prefix+"junk-"), 20_000)
	other.want("ok", "hide")
	want := fmt.Sprintf("%s has too many files of uid %d (there are more than 10,", dir, stranger)
	if got := other.ask("claims"); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q...", got, want)
	}
}

// Six users without an account, as an owner of subordinate IDs may have them, make the largest claims
// possible. Together they have the limits of one user.
func TestLargestClaims(t *testing.T) {
	if testing.Short() {
		t.Skip("makes the largest claims of six users; make test runs it")
	}
	dir := shared(t)
	needRoot(t)
	b := open(t, dir)
	b.etcDir = etc(t, "root:x:0:0::/:/bin/sh\n", "ann:60000:1000\n", "passwd: files\n")
	reader := newActor(t, dir, 0)
	for i := range 6 {
		newActor(t, dir, stranger+uint32(i)).want("ok", "fill")
	}
	honest := newActor(t, dir, 0)
	honest.ask("take", "honest", "1")
	var o OtherClaims
	var err error
	took := cost(t, func() { o, err = b.ReadOthers(nil) })
	if len(o.Mine) != 1 {
		t.Errorf("%d claims of ours", len(o.Mine))
	}
	var limit *LimitError
	if !errors.As(err, &limit) || took > 10*time.Second { // 16 MiB

		t.Errorf("took %v: %v", took, err)
	}
	t.Logf("reading took %v", took)
	reader.ask("others")
	if peak := reader.peak(); peak > 64<<10 {
		t.Errorf("a reader needs %d KiB", peak)
	}
}

// A user whose entries take as long to read as all entries may take is cut off; those of others are read.
func TestEntriesThatTakeLongToRead(t *testing.T) {
	if testing.Short() {
		t.Skip("makes claims that take a minute to read on a loaded machine; make test runs it")
	}
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	b.ReadTime = time.Second
	theirs := filepath.Join(dir, fmt.Sprint(b.prefix, stranger))
	s := &stage{b: b}
	defer s.close()
	if err := errors.Join(os.Mkdir(theirs, 0o755), os.Chown(theirs, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	size := int(maxClaimSize(b.maxForeignRanks())) - 100
	for i := range (maxBytes - 1<<20) / size {
		name := fmt.Sprintf("%s%d-evil", kindClaim, i)
		text := fmt.Sprintf(`{"file":%q,"job":"evil","uid":%d,"ranks":[`, name, stranger)
		text += strings.Repeat("{},", (size-len(text))/3-1) + "{}]}"
		path := filepath.Join(theirs, name)
		if err := errors.Join(s.evil("write", []string{path, text}), os.Chown(path, stranger, stranger)); err != nil {
			t.Fatal(err)
		}
	}
	newActor(t, dir, stranger+1).want("ok", "take", "honest", "1")
	var claims []Claim
	var err error
	for range 20 { // a busy machine may need more than a second for anything
		b.slowRead.Store(false)
		if claims, err = b.Claims(); len(claims) == 1 {
			break
		}
	}
	var limit *LimitError
	if len(claims) != 1 || !errors.As(err, &limit) || limit.User != fmt.Sprint("uid ", stranger) || limit.Why != "reading them takes longer than 250ms" {
		t.Errorf("%d claims, %v", len(claims), err)
	}
}

// peak returns the largest resident set that an actor ever had, in KiB.
func (a *actor) peak() (kib int) {
	a.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	if err != nil {
		a.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	fmt.Sscan(rest, &kib)
	return kib
}

// On a file system without a free block or inode no claim can be made. This is reported, and
// existing claims can be read.
func TestFullFileSystem(t *testing.T) {
	for what, options := range map[string]string{"blocks": "size=64k,mode=1777", "inodes": "nr_inodes=16,mode=1777"} {
		t.Run(what, func(t *testing.T) {
			dir := sea(t, options)
			b := open(t, dir)
			evil := newActor(t, dir, stranger)
			evil.want("ok", "take", "there", "1")
			evil.ask("fillup", filepath.Join(dir, "junk"))
			wantClaims(t, b, "there")
			_, err := b.TakeClaim(t.Context(), claimOf("mine", 0), always)
			var unusable *UnusableError
			if !errors.As(err, &unusable) {
				t.Errorf("%v", err)
			}
			g, err := b.LockDecision(t.Context())
			if err != nil || g.Warning == nil {
				t.Errorf("%+v, %v", g, err)
			}
			g.Unlock()
		})
	}
}
