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

// needRoot is for what takes two users. The tests without it show the rest.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be two users")
	}
}

// A second user can neither remove nor replace nor hold nor unlock what is not his.
func TestStrangerCannotTouch(t *testing.T) {
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

// Nobody else can keep a dead job's claim or ticket alive.
func TestStrangerCannotHoldTheDead(t *testing.T) {
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
		evil.tell("await", name) // a read lock, as soon as it can be had
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

// What a file says of somebody else is not believed, also not by root; and nobody takes
// a place or claim for another.
func TestStrangerCannotForge(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	evil := newActor(t, dir, stranger)
	own := evil.ask("shelf")
	for i, uid := range []int{0, stranger + 1} {
		c, ticket := claimOf("forged", 0), ticketOf("forged")
		c.UID, ticket.UID, ticket.Number = uid, uid, int64(i+1)
		name := fmt.Sprintf("%sforged-%d", kindClaim, i)
		text, _ := encode(claimText{name, c})
		evil.want("ok", "write", filepath.Join(own, name), pack(text))
		// And the same on what looks like that user's shelf.
		shelf := fmt.Sprint(filepath.Join(dir, b.prefix), uid, ".forged")
		evil.want("ok", "mkdir", shelf)
		evil.want("ok", "write", filepath.Join(shelf, name), pack(text))
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

// The name of a user is that of his account, whatever his claims and tickets say.
func TestNobodyTakesTheNameOfAnother(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	b.etcDir = etc(t, fmt.Sprintf("root:x:0:0::/:/bin/sh\nevil:x:%d:5::/:/bin/sh\n", stranger), "", "")
	for uid, name := range map[uint32]string{stranger: "evil", stranger + 1: ""} {
		evil := newActor(t, dir, uid)
		evil.want("ok", "take", "root", "0", "root") // as a job of that name, and as that user
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

// Whatever others lock of what they can open, nobody waits for it: the gate is no lock
// (TRUST-17).
func TestStrangerHoldsLocks(t *testing.T) {
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

// wantQuick wants that a start costs next to nothing.
func wantQuick(t *testing.T, b *Dir) {
	t.Helper()
	if took := cost(t, func() { start(t, b) }); took > 500*time.Millisecond {
		t.Errorf("it cost %v", took)
	}
}

// start does all that a start does.
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

// A user who keeps the gate, by one slip or by many, is waited for once and for so long as
// an honest one may take; then he is known, by name, and not waited for again. An honest one
// who opens it is waited for until then.
func TestWhoKeepsTheGate(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	b.HolderWait = 2 * time.Second
	evil := newActor(t, dir, stranger)
	for range 5 {
		evil.want("ok", "slip")
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
	honest.want("ok", "gate") // he waits for nobody but evil, whom he does not know yet
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

// One has the gate at a time, however many come at once and from whatever users.
func TestGateContention(t *testing.T) {
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
		a.tell("gates", "100", umpire)
	}
	for _, a := range all {
		a.want("ok")
	}
}

// Somebody sits on the name of a user's shelf, in whatever way: the user takes another name,
// and is seen by all.
func TestSquattedShelf(t *testing.T) {
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
			poor.want("ok", "gate")
			wantClaims(t, b, "j")
			if left, _ := os.ReadDir(secret); len(left) > 0 {
				t.Error("a link was followed")
			}
		})
	}
}

// A shelf that others may write to, or that leads elsewhere, is not believed.
func TestOpenShelf(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	victim := newActor(t, dir, stranger)
	victim.want("ok", "take", "j", "0")
	wantClaims(t, b, "j")
	shelf := filepath.Dir(files(t, b, kindClaim)[0])
	for _, mode := range []os.FileMode{0o777, 0o775, 0o777 | os.ModeSticky, 0o700} {
		if err := os.Chmod(shelf, mode); err != nil {
			t.Fatal(err)
		}
		wantClaims(t, b)
	}
	if err := errors.Join(os.Chmod(shelf, 0o755), os.Rename(shelf, shelf+".x"), os.Symlink(shelf+".x", shelf)); err != nil {
		t.Fatal(err)
	}
	wantClaims(t, b, "j") // under the name with the dot, and once
}

// All that can lie on a shelf under the names of claims and tickets does no harm.
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
				continue // that is all there is to a slip
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

// Root removes anybody's leftovers; others only their own, and pass over the rest.
func TestWhoSweeps(t *testing.T) {
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
	leave(stranger) // sweeps nothing: it has none, and those of others stay
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

// A user's claims are seen, and a directory of his is refused by all others.
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

// What one user brings beyond all measure is not looked at, and those without a name
// have the limits of one; others are not affected.
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

// etc is a database of users.
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

// Who is a user of his own: those with a name, and where a directory service knows more of
// them all whose number nobody has lent.
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

// A user who closes many claims that stay locked has nobody wait for them.
func TestManyClaimsKeepNoWatcherBusy(t *testing.T) {
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
