package ledger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// needRoot skips tests that need two users.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be two users")
	}
}

// A second user can neither remove nor replace nor lock nor unlock files of another user.
func TestOtherUserCannotModifyFiles(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	h, err := b.TakeClaim(t.Context(), claimOf("j1", 0), always)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	p, err := b.Enqueue(ticketOf("j1"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Leave()
	evil := newActor(t, dir, stranger)
	for _, name := range []string{files(t, b, kindClaim)[0], files(t, b, kindTicket)[0]} {
		mine := filepath.Join(dir, "mine-"+filepath.Base(name))
		evil.want("ok", "write", mine, "text")
		for _, line := range [][]any{
			{"remove", name}, {"rename", name, name + "-away"}, {"rename", mine, name}, {"link", mine, name + "-too"},
			{"write", name, "text"}, {"write", name + "-too", "text"}, {"writelock", name}, {"readlock", name},
			{"remove", filepath.Dir(name)}, {"rename", filepath.Dir(name), filepath.Join(dir, "away")},
		} {
			if got := evil.ask(line...); got == "ok" {
				t.Errorf("%v succeeded", line)
			}
		}
	}
	evil.want("j1", "claims")
	if tickets, _ := b.Tickets(); len(tickets) != 1 {
		t.Error(tickets)
	}
}

// No other user can keep a dead job's claim or ticket alive.
func TestOtherUserCannotHoldDeadEntries(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	victim := newActor(t, dir, stranger+1)
	victim.want("ok", "take", "j1", "0")
	victim.want("1", "enqueue", "j1")
	names := append(files(t, b, kindClaim), files(t, b, kindTicket)...)
	p, err := b.Enqueue(ticketOf("next"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Leave()
	evil := newActor(t, dir, stranger)
	for _, name := range names {
		evil.tell("await", name) // takes a read lock as soon as possible
	}
	victim.kill()
	for range names {
		evil.want("ok")
	}
	if err := p.WaitForTurn(t.Context(), nil); err != nil {
		t.Error(err)
	}
	wantClaims(t, b)
	h, err := b.TakeClaim(t.Context(), claimOf("j2", 0), apart([]int{0}))
	if err != nil {
		t.Fatal(err)
	}
	h.Release()
}

// A file's statements about another user are not believed, not even by root, and no user can make
// a ticket or claim for another.
func TestOtherUserCannotForge(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	evil := newActor(t, dir, stranger)
	own := evil.ask("userdir")
	for i, uid := range []int{0, stranger + 1} {
		c, ticket := claimOf("forged", 0), ticketOf("forged")
		c.UID, ticket.UID, ticket.Number = uid, uid, int64(i+1)
		name := fmt.Sprintf("%sforged-%d", kindClaim, i)
		text, _ := encode(claimText{name, c})
		evil.want("ok", "write", filepath.Join(own, name), pack(text))
		// The same in a directory that looks like that user's.
		userDir := fmt.Sprint(filepath.Join(dir, b.prefix), uid, ".forged")
		evil.want("ok", "mkdir", userDir)
		evil.want("ok", "write", filepath.Join(userDir, name), pack(text))
		name = ticketName(ticket.Number, "x")
		text, _ = encode(ticketText{name, ticket})
		evil.want("ok", "write", filepath.Join(own, name), pack(text))
	}
	wantClaims(t, b)
	if tickets, err := b.Tickets(); err != nil || len(tickets) > 0 {
		t.Error(tickets, err)
	}
	p, err := b.Enqueue(ticketOf("mine"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Leave()
	if n, _ := p.Ahead(); n != 0 || p.Ticket.Number != 1 {
		t.Errorf("ticket %d, %d ahead", p.Ticket.Number, n)
	}
	other := claimOf("other", 0)
	other.UID = stranger
	if _, err := b.TakeClaim(t.Context(), other, always); !errors.Is(err, unix.EPERM) {
		t.Error(err)
	}
}

// The name of a user comes from his account, whatever his claims and tickets say.
func TestUserNameIsThatOfTheAccount(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	b.etcDir = etc(t, fmt.Sprintf("root:x:0:0::/:/bin/sh\nevil:x:%d:5::/:/bin/sh\n", stranger), "", "")
	for uid, name := range map[uint32]string{stranger: "evil", stranger + 1: ""} {
		evil := newActor(t, dir, uid)
		evil.want("ok", "take", "root", "0", "root") // with a job and a user of that name
		evil.want("1", "enqueue", "j", "root")
		claims, err := b.Claims()
		if err != nil || len(claims) != 1 || claims[0].User != name {
			t.Errorf("%+v, %v", claims, err)
		}
		tickets, err := b.Tickets()
		if err != nil || len(tickets) != 1 || tickets[0].User != name {
			t.Errorf("%+v, %v", tickets, err)
		}
		if o, err := b.ReadOthers(nil); err != nil || o.OtherUsers.TopUser != nameOrUID(name, int(uid)) {
			t.Errorf("in the way is %q, %v", o.OtherUsers.TopUser, err)
		}
		evil.kill()
	}
}

// Whatever other users lock, no request waits for it, since the decision lock is no file lock
// (TRUST-17).
func TestOtherUserHoldsLocks(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	h, err := b.TakeClaim(t.Context(), claimOf("first", 1), always)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	g, err := b.LockDecision(t.Context())
	if err != nil || g.Warning != nil {
		t.Fatal(err, g.Warning)
	}
	evil := newActor(t, dir, stranger)
	evil.want("ok", "flock", dir)
	for _, name := range []string{filepath.Dir(files(t, b, kindLock)[0]), files(t, b, kindLock)[0], files(t, b, kindClaim)[0]} {
		evil.want("ok", "flock", name)
		evil.tell("readlock", name)
		evil.hear()
	}
	g.Unlock()
	wantQuick(t, b)
}

// wantQuick checks that a start takes hardly any time.
func wantQuick(t *testing.T, b *Dir) {
	t.Helper()
	if took := cost(t, func() { start(t, b) }); took > 500*time.Millisecond {
		t.Errorf("it cost %v", took)
	}
}

// start does everything with the ledger that a start of a job does.
func start(t *testing.T, b *Dir) {
	t.Helper()
	g, err := b.LockDecision(t.Context())
	if err != nil || g.Warning != nil {
		t.Fatal(err, g.Warning)
	}
	defer g.Unlock()
	if _, err := b.ReadOthers(nil); err != nil {
		t.Error(err)
	}
	h, err := b.TakeClaim(t.Context(), claimOf("quick", 0), apart([]int{0}))
	if err != nil || h.Warning != nil {
		t.Fatal(err, h.Warning)
	}
	h.Release()
	p, err := b.Enqueue(ticketOf("quick"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Leave()
	if n, _ := p.Ahead(); n != 0 {
		t.Errorf("%d ahead", n)
	}
}

// A user who keeps the decision lock, by one entry or by many, is waited for once, for as long as
// an honest user may take. Then he is reported by name, and not waited for again. An honest user
// is waited for until he releases it.
func TestDecisionLockHeldTooLong(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	b.HolderWait = 2 * time.Second
	evil := newActor(t, dir, stranger)
	for range 5 {
		evil.want("ok", "keep-lock")
	}
	for try := range 2 {
		began := time.Now()
		g, err := b.LockDecision(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		g.Unlock()
		var e *LockTimeoutError
		if !errors.As(g.Warning, &e) || !strings.Contains(e.Error(), fmt.Sprint(stranger)) || !errors.Is(e, errHeldTooLong) {
			t.Errorf("warning %v", g.Warning)
		}
		took := time.Since(began)
		if waited := took >= b.HolderWait; waited != (try == 0) {
			t.Errorf("try %d took %v", try, took)
		}
	}
	honest := newActor(t, dir, stranger+1)
	b.HolderWait = 20 * time.Second
	honest.want("ok", "lock") // it waits only for evil, who is not recorded as unresponsive yet
	got := make(chan error)
	go func() {
		g, err := b.LockDecision(t.Context())
		if g != nil {
			g.Unlock()
		}
		got <- err
	}()
	select {
	case <-got:
		t.Fatal("did not wait for an honest one")
	case <-time.After(50 * time.Millisecond):
	}
	honest.want("ok", "open")
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// Only one request has the decision lock at a time, however many come at once from different users.
func TestDecisionLockContention(t *testing.T) {
	dir := shared(t)
	umpire := filepath.Join(dir, "umpire")
	uids := []uint32{0, 0, 0, 0}
	if os.Geteuid() == 0 {
		uids = []uint32{0, 0, stranger, stranger + 1}
	}
	var all []*actor
	for _, uid := range uids {
		all = append(all, newActor(t, dir, uid))
	}
	for _, a := range all {
		a.tell("takeLocks", "100", umpire)
	}
	for _, a := range all {
		a.want("ok")
	}
}

// If another user has taken the name of a user's directory, the user takes another name,
// and all others find it.
func TestSquattedUserDir(t *testing.T) {
	needRoot(t)
	const victim = stranger + 1
	secret := t.TempDir()
	for what, spoil := range map[string]func(evil *actor, name string){
		"directory": func(evil *actor, name string) { evil.want("ok", "mkdir", name) },
		"closed":    func(evil *actor, name string) { evil.want("ok", "mkdir", name); evil.want("ok", "close", name) },
		"symlink":   func(evil *actor, name string) { evil.want("ok", "symlink", secret, name) },
		"dangling":  func(evil *actor, name string) { evil.want("ok", "symlink", name+"2", name) },
		"fifo":      func(evil *actor, name string) { evil.want("ok", "fifo", name) },
		"file":      func(evil *actor, name string) { evil.want("ok", "write", name, "x") },
	} {
		t.Run(what, func(t *testing.T) {
			dir := shared(t)
			b := open(t, dir)
			evil, poor := newActor(t, dir, stranger), newActor(t, dir, victim)
			evil.t, poor.t = t, t
			spoil(evil, fmt.Sprint(filepath.Join(dir, b.prefix), victim))
			poor.want("ok", "take", "j", "0")
			poor.want("1", "enqueue", "j")
			poor.want("ok", "lock")
			wantClaims(t, b, "j")
			if left, _ := os.ReadDir(secret); len(left) > 0 {
				t.Error("a link was followed")
			}
		})
	}
}

// A user directory that others may write to, or that is a link, is not believed.
func TestWritableUserDir(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	victim := newActor(t, dir, stranger)
	victim.want("ok", "take", "j", "0")
	wantClaims(t, b, "j")
	userDir := filepath.Dir(files(t, b, kindClaim)[0])
	for _, mode := range []os.FileMode{0o777, 0o775, 0o777 | os.ModeSticky, 0o700} {
		if err := os.Chmod(userDir, mode); err != nil {
			t.Fatal(err)
		}
		wantClaims(t, b)
	}
	if err := errors.Join(os.Chmod(userDir, 0o755), os.Rename(userDir, userDir+".x"), os.Symlink(userDir+".x", userDir)); err != nil {
		t.Fatal(err)
	}
	wantClaims(t, b, "j") // under the name with the dot, and once
}

// Files of any kind under the names of claims and tickets do no harm.
func TestJunk(t *testing.T) {
	dir := shared(t)
	b := open(t, dir)
	fd, own, err := b.openOwnDir()
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	s := &stage{b: b}
	valid := func(name string) string {
		text, _ := encode(claimText{name, claimOf("j", 0)})
		return string(text)
	}
	huge := strings.Repeat(" ", maxText) + "{}"
	for _, kind := range []string{kindClaim, kindTicket + "0000000000000000000", kindLock} {
		path := filepath.Join(dir, own.name, kind)
		for i, text := range []string{"{", "null", "[]", "{}", strings.Repeat("[", 100_000), huge, "\x00\xff",
			`{"file":"` + kind + `a","job":"../x"}`, strings.Replace(valid(kind+"8"), `"job":"j"`, `"job":"a/b"`, 1)} {
			if kind == kindLock && i == 8 {
				continue // a decision lock has no contents
			}
			if err := s.evil("write", []string{fmt.Sprint(path, i), text}); err != nil {
				t.Fatal(err)
			}
		}
		err := errors.Join(
			os.Mkdir(path+"d", 0o755),
			unix.Mkfifo(path+"f", 0o644),
			os.Symlink("/dev/zero", path+"z"),
			os.Symlink(kind+"l", path+"l"),
			s.evil("write", []string{path + "m", valid(kind + "m")}), // for Chmod
			os.Chmod(path+"m", 0o666),
			s.evil("write", []string{path + "r", valid(kind + "r")}),
			os.Chmod(path+"r", 0o600),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	defer s.close()
	wantClaims(t, b)
	if tickets, err := b.Tickets(); err != nil || len(tickets) > 0 {
		t.Error(tickets, err)
	}
	wantQuick(t, b)
}

// Root removes leftovers of all users. Others remove only their own, and skip the rest.
func TestWhoRemovesLeftovers(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	leave := func(uid uint32) {
		a := newActor(t, dir, uid)
		a.want("ok", "take", "left", "0")
		a.kill()
	}
	leave(0)
	leave(stranger + 1)
	leave(stranger) // removes nothing: it has none, and those of others stay
	if left := files(t, b, kindClaim); len(left) != 3 {
		t.Errorf("left: %q, want those of three users", left)
	}
	leave(stranger)
	if left := files(t, b, kindClaim); len(left) != 3 {
		t.Errorf("left: %q, want one of each user", left)
	}
	h, err := b.TakeClaim(t.Context(), claimOf("mine", 0), apart([]int{0}))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	if left := files(t, b, kindClaim); len(left) != 1 {
		t.Errorf("left after root: %q", left)
	}
}

// A user's claims are visible to others, and a ledger directory of one user is refused by all others.
func TestTwoUsers(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	other := newActor(t, dir, stranger)
	other.want("ok", "take", "theirs", "0")
	if _, err := b.TakeClaim(t.Context(), claimOf("mine", 0), apart([]int{0})); err != errTaken {
		t.Error(err)
	}
	claims, err := b.Claims()
	if err != nil || len(claims) != 1 || claims[0].UID != stranger {
		t.Errorf("%+v, %v", claims, err)
	}
	if err := os.Chown(dir, stranger, stranger); err != nil {
		t.Fatal(err)
	}
	var unusable *UnusableError
	if _, err := Open(dir, "this node"); !errors.As(err, &unusable) {
		t.Error(err)
	}
}

// Entries of a user beyond the limits are not read, and users without an account
// have the limits of one together. Other users are not affected.
func TestLimits(t *testing.T) {
	b := open(t, shared(t))
	b.etcDir = etc(t, "ann:x:5:5::/:/bin/sh\n", "ann:100000:65536\n", "passwd: files")
	l := b.newUserLimits()
	for range maxBytes / maxText {
		if !l.countUser(5, userLoad{bytes: maxText}) {
			t.Fatal("refused too early")
		}
	}
	if l.countUser(5, userLoad{bytes: 1}) || !l.countUser(6, userLoad{bytes: 1}) {
		t.Error("more than allowed, or others affected")
	}
	l = b.newUserLimits()
	for uid := range maxFiles {
		l.countUser(100_000+uid, userLoad{names: 1})
	}
	if !l.countUser(5, userLoad{names: maxFiles}) || l.countUser(200_000, userLoad{names: 1}) || !l.countUser(os.Geteuid(), userLoad{names: 1}) {
		t.Error("a named user is affected by those without, or those are not counted together")
	}
}

// etc makes a user database.
func etc(t *testing.T, passwd, subuid, nsswitch string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"passwd": passwd, "subuid": subuid, "nsswitch.conf": nsswitch} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Users with an account count as one each. With a directory service, so do
// all uids that are not subordinate IDs.
func TestDatabase(t *testing.T) {
	for sources, remote := range map[string]bool{"files": false, "files systemd": false, "compat # sss": false,
		"files sss": true, "sss files": true, "files [SUCCESS=merge] ldap": true} {
		d := readDatabase(etc(t, "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\n", "ann:100000:65536\n", "group: ldap\npasswd: "+sources+"\n"))
		if d.userOf(0) != 0 || d.userOf(1000) != 1000 || d.userOf(100_000) != noUser || d.userOf(165_535) != noUser {
			t.Errorf("%s: %+v", sources, d)
		}
		if got := d.userOf(165_536) == 165_536; got != remote {
			t.Errorf("%s: a number without a name counts as a user: %v", sources, got)
		}
	}
}

// A user who closes many claims that stay locked delays no watcher.
func TestManyClaimsDoNotDelayWatcher(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	evil := newActor(t, dir, stranger)
	const many = 40
	for i := range many {
		evil.want("ok", "take", "evil", fmt.Sprint(i))
	}
	var all []entry
	if err := b.newReader(nil).readKind(kindClaim, func(s entry) { all = append(all, s) }); err != nil || len(all) != many {
		t.Fatal(len(all), err)
	}
	began := time.Now()
	b.waitUnlocked(t.Context(), all)
	if took := time.Since(began); took > 20*time.Second { // it was a second for each
		t.Errorf("%d claims that stay locked were waited for %v", many, took)
	}
}
