package ledger

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A database tells users from numbers that anybody may have made: subordinate ids.
type database struct {
	names  map[int]string // by uid
	lent   [][2]int       // first and count of ids that belong to some user
	remote bool           // there are users that we cannot read of, in a directory service
}

// readDatabase reads what a static binary can: passwd, subuid, nsswitch.conf in /etc.
func readDatabase(etc string) database {
	d := database{names: make(map[int]string)}
	for fields := range records(etc, "passwd") {
		if uid, err := strconv.Atoi(at(fields, 2)); err == nil && d.names[uid] == "" {
			d.names[uid] = short(fields[0])
		}
	}
	for fields := range records(etc, "subuid") {
		first, err1 := strconv.Atoi(at(fields, 1))
		count, err2 := strconv.Atoi(at(fields, 2))
		if err1 == nil && err2 == nil {
			d.lent = append(d.lent, [2]int{first, count})
		}
	}
	for fields := range records(etc, "nsswitch.conf") {
		if fields[0] == "passwd" {
			d.remote = directoryService(at(fields, 1))
		}
	}
	return d
}

// directoryService reports whether users come from elsewhere than files and the machine.
func directoryService(sources string) bool {
	for source := range strings.FieldsSeq(sources) {
		switch source {
		case "files", "compat", "systemd", "db", "altfiles":
		default:
			return !strings.HasPrefix(source, "#")
		}
	}
	return false
}

func records(etc, file string) func(func([]string) bool) {
	text, _ := os.ReadFile(filepath.Join(etc, file))
	return func(yield func([]string) bool) {
		for line := range strings.Lines(string(text)) {
			if !yield(strings.Split(strings.TrimSpace(line), ":")) {
				return
			}
		}
	}
}

func at(fields []string, i int) string {
	if i < len(fields) {
		return fields[i]
	}
	return ""
}

// nobody stands for all uids that have no user of their own: together they have the
// limits of one, since whoever has subordinate ids has 65,536 of them (TRUST-14).
const nobody = -1

// whose is the user that a uid counts as.
func (d database) whose(uid int) int {
	if d.names[uid] != "" {
		return uid
	}
	for _, r := range d.lent {
		if uid >= r[0] && uid-r[0] < r[1] {
			return nobody
		}
	}
	if d.remote {
		return uid
	}
	return nobody
}

// accountName is the name of a user in /etc/passwd; empty: he has none there. What entries of other users say about that is
// not believed: they could name anybody.
func (d *Dir) accountName(uid int) string { return d.database().names[uid] }

// userName is what to call a user.
func (d *Dir) userName(uid int) string { return nameOr(d.accountName(uid), uid) }

// limits counts what each user has brought. As long as all together stay below what one
// may have, nobody needs to know who is who.
type limits struct {
	d     *Dir
	asked bool
	all   load
	each  map[int]load // by uid, or by user once it was asked
}

type load struct{ names, bytes int64 }

func (l load) over() bool { return l.names > maxFiles || l.bytes > maxBytes }

func (l load) and(m load) load { return load{l.names + m.names, l.bytes + m.bytes} }

func (d *Dir) limits() *limits { return &limits{d: d, each: make(map[int]load)} }

// pass counts what is a user's, and reports whether he is still within his limits.
func (l *limits) pass(uid int, m load) bool {
	if l.all = l.all.and(m); l.all.over() {
		l.ask()
	}
	user := l.whose(uid)
	l.each[user] = l.each[user].and(m)
	return !l.each[user].over()
}

// whose is the user that a uid counts as, as far as that was asked.
func (l *limits) whose(uid int) int {
	if !l.asked || uid == os.Geteuid() {
		return uid
	}
	return l.d.database().whose(uid)
}

// ask looks up who is who, and counts anew by user.
func (l *limits) ask() {
	if l.asked {
		return
	}
	byUID := l.each
	l.asked, l.each = true, make(map[int]load)
	for uid, m := range byUID {
		l.each[l.whose(uid)] = l.each[l.whose(uid)].and(m)
	}
}

// thousands writes a number as people do.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
