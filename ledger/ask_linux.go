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

// A Slip is an ask or an answer of ours that others see, until Drop or the death of this process.
type Slip struct {
	ID   string // by which an ask is answered
	file *ownFile
}

// Drop takes it away. It may be called again.
func (s *Slip) Drop() error { return s.file.drop() }

// A FoundAsk is one that somebody has shown.
type FoundAsk struct {
	job.Ask        // with the name of its user as this node has it
	ID      string // by which it is answered
	entry   entry
}

// askName begins the names of all asks of a job.
func askName(id job.ID) string { return fmt.Sprintf("%s%s-", kindAsk, id) }

// Ask shows an ask.
func (d *Dir) Ask(a job.Ask) (*Slip, error) {
	if err := errors.Join(checkAsk(a), checkOwner(a.UID)); err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	d.sweepAsks()
	number := random()
	name := askName(a.Job) + number
	text, err := encode(askText{name, a})
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	s, err := d.blank()
	if err == nil {
		err = s.present(name, text)
	}
	if err != nil {
		return nil, err
	}
	return &Slip{answerID(a, number), s}, nil
}

// answerID is the name by which an ask is answered. A version that names no owner waits for an answer under the random part alone.
func answerID(a job.Ask, random string) string {
	if a.Owner == job.AnyOwner {
		return random
	}
	return fmt.Sprintf("%d-%s", a.UID, random)
}

// checkAnswerID refuses what answerID does not make.
func checkAnswerID(id string) error {
	uid, random, both := strings.Cut(id, "-")
	if !both {
		return checkRandom(id)
	}
	if n, err := strconv.ParseUint(uid, 10, 32); err != nil || strconv.FormatUint(n, 10) != uid {
		return fmt.Errorf("%.60q is no number of a user", uid)
	}
	return checkRandom(random)
}

// sweepAsks removes what askers of ours, or helpers, that were killed have left.
func (d *Dir) sweepAsks() {
	for _, kind := range []string{kindAsk, kindAnswer} {
		l := d.look(nil)
		l.read(kind, func(entry) {})
		l.sweep(time.Now())
	}
}

// Respond answers an ask for the first time. An error that is unix.EEXIST says that another helper of
// the job has done so.
func (d *Dir) Respond(id string, a job.Answer) (*Slip, error) {
	s, name, err := d.answer(id, a)
	if err != nil {
		return nil, err
	}
	if err := s.show(name); err != nil {
		s.drop()
		return nil, err
	}
	return &Slip{id, s}, nil
}

// Rewrite puts another answer in the place of one, at a stroke (gang.md G-3): it is locked before it has
// the name.
func (d *Dir) Rewrite(old *Slip, a job.Answer) (*Slip, error) {
	s, name, err := d.answer(old.ID, a)
	if err != nil {
		return old, err
	}
	if err := s.replace(name); err != nil {
		s.drop()
		return old, err
	}
	old.file.drop() // its name is another file's now
	return &Slip{old.ID, s}, nil
}

// answer writes and locks an answer that nobody sees yet.
func (d *Dir) answer(id string, a job.Answer) (s *ownFile, name string, err error) {
	name = kindAnswer + id
	if err := errors.Join(checkAnswerID(id), checkAnswer(a), checkOwner(a.UID)); err != nil {
		return nil, "", fmt.Errorf("answer: %w", err)
	}
	text, err := encode(answerText{name, a, a.Ranks})
	if err != nil {
		return nil, "", fmt.Errorf("answer: %w", err)
	}
	if s, err = d.blank(); err != nil {
		return nil, "", err
	}
	if err = s.write(text); err == nil {
		err = s.lock()
	}
	if err != nil {
		s.drop()
		return nil, "", err
	}
	return s, name, nil
}

// Answer reads how an ask is answered by the owner of its job, in so many bytes at most; false: it is not, or no longer.
func (d *Dir) Answer(id string, owner, most int) (a job.Answer, found bool) {
	all, _ := d.shelves(time.Now().Add(d.ReadTime)) // what was read counts
	_, random, _ := strings.Cut(id, "-")
	for _, s := range all {
		if s.uid != owner {
			continue
		}
		for _, name := range []string{id, random} { // a job of an older version answers by the random part
			if a, found = d.answerOn(s, kindAnswer+name, most); found {
				return a, true
			}
		}
	}
	return a, false
}

// UserName is what to call a user of this node.
func (d *Dir) UserName(uid int) string { return d.userName(uid) }

func (d *Dir) answerOn(s shelf, name string, most int) (a job.Answer, found bool) {
	dir, err := d.openShelf(s)
	if err != nil {
		return a, false
	}
	defer unix.Close(dir)
	e, err := d.readEntry(dir, s, name, nil)
	if err != nil || len(e.text) > most {
		return a, false
	}
	a, err = decodeAnswer(name, s.uid, e.text)
	return a, err == nil
}

// Waits reports whether the asker still does.
func (d *Dir) Waits(a FoundAsk) bool { return d.lives(a.entry) }

// Of the asks of a user so many are looked at, and one is taken up in a second (SV-25). However many
// there are, and however they come and go, all together are looked at ten times a second at most.
const (
	mostAsks  = 16
	askPause  = time.Second
	askBreath = 100 * time.Millisecond
)

// HearAsks hands each new ask of a job of our user to take, until ctx ends, with its error, or the directory cannot
// be read any more.
func (d *Dir) HearAsks(ctx context.Context, id job.ID, take func(FoundAsk)) error {
	w := newWatcher(d)
	defer w.close()
	w.kind = askName(id)
	w.dir()
	taken, last := make(map[string]bool), make(map[int]time.Time)
	for {
		asks, still, err := d.asks(w, id, taken)
		if err != nil {
			return err
		}
		taken = still
		chosen, pause := nextAsks(asks, d.askingUsers(asks), last, time.Now())
		for _, a := range chosen {
			taken[a.entry.path()] = true
			take(a)
		}
		if err := w.nextNames(ctx, pause); err != nil {
			return err
		}
	}
}

// asks are those of a job that were not taken up, of each user a few, and which of the taken are
// still there.
func (d *Dir) asks(w *watcher, id job.ID, taken map[string]bool) (found []FoundAsk, still map[string]bool, err error) {
	for {
		fresh := false
		found, still = nil, make(map[string]bool)
		l := d.look(taken)
		l.most, l.still = mostAsks, still
		l.shelves = func(s shelf) { fresh = w.shelf(s) || fresh }
		err = l.read(askName(id), func(s entry) {
			a, random, err := decodeAsk(s.base, s.uid, s.text)
			if err != nil || a.Job != id || a.Owner != os.Geteuid() && a.Owner != job.AnyOwner {
				return
			}
			s.text = nil
			a.User = d.userName(s.uid)
			found = append(found, FoundAsk{a, answerID(a, random), s})
		})
		if err != nil || !fresh {
			return found, still, err
		}
	}
}

// askingUsers are the users that askers count as: those without an account are one together, as somebody can have 65,536 such numbers.
func (d *Dir) askingUsers(asks []FoundAsk) (users []int) {
	for _, a := range asks {
		user := a.UID
		if user != os.Geteuid() {
			user = d.database().whose(user)
		}
		users = append(users, user)
	}
	return users
}

// nextAsks are those to take up now: of each user one in a second; and after how long the next one may
// be, 0: there is none.
func nextAsks(asks []FoundAsk, users []int, last map[int]time.Time, now time.Time) (chosen []FoundAsk, pause time.Duration) {
	for i, a := range asks {
		if before, any := last[users[i]]; any && now.Sub(before) < askPause {
			if left := askPause - now.Sub(before); pause == 0 || left < pause {
				pause = left
			}
			continue
		}
		last[users[i]] = now
		chosen = append(chosen, a)
	}
	return chosen, pause
}

// nextNames waits for a new name, but for no longer than a pause, if there is one.
func (w *watcher) nextNames(ctx context.Context, pause time.Duration) error {
	for {
		limit := lookAgain
		if pause > 0 {
			limit = min(limit, pause)
		}
		n, err := w.wait(ctx, limit)
		if err != nil {
			return err
		}
		if err := sleep(ctx, askBreath); err != nil {
			return err
		}
		if n.unknown || n.names || n.files == nil || pause > 0 {
			return nil
		}
	}
}

// decodeAsk reads the ask in a file of this name and owner, and by what it is answered.
func decodeAsk(name string, owner int, text []byte) (a job.Ask, random string, err error) {
	t := askText{Ask: job.Ask{Owner: job.AnyOwner}}
	if err := decodeAs(name, owner, text, &t, func() (string, int) { return t.File, t.UID }); err != nil {
		return a, "", err
	}
	if err := checkAsk(t.Ask); err != nil {
		return a, "", err
	}
	random, is := strings.CutPrefix(name, askName(t.Job))
	if !is {
		return a, "", fmt.Errorf("is of job %.60q", t.Job)
	}
	t.User = short(t.User)
	return t.Ask, random, checkRandom(random)
}

// decodeAnswer is decodeAsk for answers.
func decodeAnswer(name string, owner int, text []byte) (a job.Answer, err error) {
	var t answerText
	if err := decodeAs(name, owner, text, &t, func() (string, int) { return t.File, t.UID }); err != nil {
		return a, err
	}
	a = t.Answer
	a.Text, a.Ranks = short(a.Text), t.Ranks
	return a, checkAnswer(a)
}
