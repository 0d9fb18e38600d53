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
	h, err := b.Take(t.Context(), claimOf("j1", 0), always)
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
		evil.want("ok", "write", name+"-mine", "text")
		for _, line := range [][]any{
			{"remove", name}, {"rename", name, name + "-away"}, {"rename", name + "-mine", name},
			{"write", name, "text"}, {"writelock", name}, {"readlock", name},
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
	if err := p.Turn(t.Context(), nil); err != nil {
		t.Error(err)
	}
	wantClaims(t, b)
	h, err := b.Take(t.Context(), claimOf("j2", 0), apart([]int{0}))
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
	for i, uid := range []int{0, stranger + 1} {
		c, ticket := claimOf("forged", 0), ticketOf("forged")
		c.UID, ticket.UID, ticket.Number = uid, uid, int64(i+1)
		name := fmt.Sprintf("%s%sforged-%d", b.prefix, kindClaim, i)
		text, _ := encode(claimText{name, c})
		evil.want("ok", "write", filepath.Join(dir, name), pack(text))
		name = ticketName(b.prefix, ticket.Number)
		text, _ = encode(ticketText{name, ticket})
		evil.want("ok", "write", filepath.Join(dir, name), pack(text))
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
	if n, _ := p.Ahead(); n != 0 || p.Ticket.Number != 3 {
		t.Errorf("ticket %d, %d ahead", p.Ticket.Number, n)
	}
	other := claimOf("other", 0)
	other.UID = stranger
	if _, err := b.Take(t.Context(), other, always); !errors.Is(err, unix.EPERM) {
		t.Error(err)
	}
}

// A second user who holds registry and gate for ever costs a short wait and a warning.
func TestStrangerHoldsLocks(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	b.RegistryWait, b.GateWait = 20*time.Millisecond, 20*time.Millisecond
	h, err := b.Take(t.Context(), claimOf("first", 1), always)
	if err != nil || h.Warning != nil {
		t.Fatal(err, h.Warning)
	}
	defer h.Release()
	evil := newActor(t, dir, stranger)
	evil.want("ok", "flock", filepath.Join(dir, b.prefix+"registry"))
	evil.want("ok", "gate")
	wantWarning := func(warning error) {
		t.Helper()
		var e *BlockedError
		if !errors.As(warning, &e) || e.PID != evil.cmd.Process.Pid || e.UID != stranger || !errors.Is(warning, errHeld) {
			t.Errorf("warning %v, want process %d of uid %d", warning, evil.cmd.Process.Pid, stranger)
		}
	}
	h, err = b.Take(t.Context(), claimOf("j", 0), always)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	wantWarning(h.Warning)
	p, err := b.Enqueue(ticketOf("j"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Leave()
	wantWarning(p.Warning)
	g, err := b.Gate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantWarning(g.Warning)
	g.Open()
}

// Whatever has the name of a lock: it is not followed, not waited for, and told of.
func TestSpoiltLocks(t *testing.T) {
	needRoot(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func(t *testing.T, evil *actor, name string){
		"directory": func(t *testing.T, evil *actor, name string) { evil.want("ok", "mkdir", name) },
		"symlink":   func(t *testing.T, evil *actor, name string) { evil.want("ok", "symlink", secret, name) },
		"dangling":  func(t *testing.T, evil *actor, name string) { evil.want("ok", "symlink", secret+"2", name) },
		"fifo":      func(t *testing.T, evil *actor, name string) { evil.want("ok", "fifo", name) },
		"hard link": func(t *testing.T, evil *actor, name string) { // as without fs.protected_hardlinks
			if err := errors.Join(os.WriteFile(name+"-too", nil, 0o644), os.Link(name+"-too", name)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := shared(t)
			b := open(t, dir)
			evil := newActor(t, dir, stranger)
			for _, lock := range []string{"registry", "gate"} {
				spoil(t, evil, filepath.Join(dir, b.prefix+lock))
			}
			h, err := b.Take(t.Context(), claimOf("j", 0), always)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Release()
			g, err := b.Gate(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var e *BlockedError
			if !errors.As(h.Warning, &e) || !errors.As(g.Warning, &e) || errors.Is(e, errHeld) || e.UID < 0 {
				t.Errorf("warnings %v, %v", h.Warning, g.Warning)
			}
			if _, err := os.Lstat(secret + "2"); err == nil {
				t.Error("a link was followed to make a file")
			}
		})
	}
}

// A lock that only its maker can open does not stop others, nor a wait for it.
func TestClosedLocks(t *testing.T) {
	needRoot(t)
	dir := shared(t)
	b := open(t, dir)
	evil, victim := newActor(t, dir, stranger), newActor(t, dir, stranger+1)
	for _, lock := range []string{"registry", "gate"} {
		evil.want("ok", "write", filepath.Join(dir, b.prefix+lock), "x")
		evil.want("ok", "close", filepath.Join(dir, b.prefix+lock))
	}
	victim.want("ok", "take", "j", "0")
	victim.want("1", "enqueue", "j")
	if got := victim.ask("gate"); !strings.Contains(got, "permission denied") || !strings.Contains(got, fmt.Sprint(stranger)) {
		t.Errorf("warning %q", got)
	}
}

// All that can lie in the directory under the names of claims and tickets does no harm.
func TestJunk(t *testing.T) {
	dir := shared(t)
	b := open(t, dir)
	s := &stage{b: b}
	valid := func(name string) string {
		text, _ := encode(claimText{name, claimOf("j", 0)})
		return string(text)
	}
	huge := strings.Repeat(" ", maxText) + "{}"
	for _, kind := range []string{kindClaim, kindTicket + "0000000000000000000"} {
		base := b.prefix + kind
		path := filepath.Join(dir, base)
		for i, text := range []string{"{", "null", "[]", "{}", strings.Repeat("[", 100_000), huge, "\x00\xff",
			`{"file":"` + base + `a","job":"../x"}`, strings.Replace(valid(base+"8"), `"job":"j"`, `"job":"a/b"`, 1)} {
			if err := s.evil("write", []string{fmt.Sprint(path, i), text}); err != nil {
				t.Fatal(err)
			}
		}
		err := errors.Join(
			os.Mkdir(path+"d", 0o755),
			unix.Mkfifo(path+"f", 0o644),
			os.Symlink("/dev/zero", path+"z"),
			os.Symlink(base+"l", path+"l"),
			os.WriteFile(filepath.Join(t.TempDir(), "away"), nil, 0o644),
			s.evil("write", []string{path + "m", valid(base + "m")}), // for Chmod
			os.Chmod(path+"m", 0o666),
			s.evil("write", []string{path + "r", valid(base + "r")}),
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
	h, err := b.Take(t.Context(), claimOf("j", 0), apart([]int{0}))
	if err != nil || h.Warning != nil {
		t.Fatal(err, h.Warning)
	}
	defer h.Release()
	p, err := b.Enqueue(ticketOf("j"))
	if err != nil || p.Warning != nil {
		t.Fatal(err, p.Warning)
	}
	defer p.Leave()
	if n, err := p.Ahead(); n != 0 || err != nil {
		t.Error(n, err)
	}
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
	h, err := b.Take(t.Context(), claimOf("mine", 0), apart([]int{0}))
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
	if _, err := b.Take(t.Context(), claimOf("mine", 0), apart([]int{0})); err != errTaken {
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

// What one user brings beyond all measure is not looked at; others are not affected.
func TestLimits(t *testing.T) {
	l := newLimits()
	for range maxBytes / maxText {
		if !l.pass(1, maxText) {
			t.Fatal("refused too early")
		}
	}
	if l.pass(1, 1) || !l.pass(2, 1) {
		t.Error("more than allowed, or others affected")
	}
	for range maxFiles - 1 {
		l.pass(2, 0)
	}
	if l.pass(2, 0) {
		t.Error("too many files")
	}
}

// The line of /proc/locks is about this file, this kind of lock, and its holder.
func TestFlockedBy(t *testing.T) {
	file := inode{unix.Mkdev(0xfe, 0x10), 1234}
	for line, want := range map[string]int{
		"3: FLOCK  ADVISORY  WRITE 4711 fe:10:1234 0 EOF":    4711,
		"3: FLOCK  ADVISORY  WRITE 4711 fe:10:12345 0 EOF":   0,
		"3: POSIX  ADVISORY  WRITE 4711 fe:10:1234 0 EOF":    0,
		"3: OFDLCK ADVISORY  WRITE -1 fe:10:1234 0 EOF":      0,
		"3: -> FLOCK  ADVISORY  WRITE 4712 fe:10:1234 0 EOF": 0,
		"": 0,
	} {
		if got := flockedBy(line, file); got != want {
			t.Errorf("%q: %d, want %d", line, got, want)
		}
	}
}
