package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A userDir is the directory of one user's entries: remshell-HASH-UID. If another user has taken that name
// first, a dot and a random part follow. A userDir is valid only if it belongs to the user with this UID, has
// mode 0755 and is not a symbolic link (rule TRUST-14).
type userDir struct {
	name string
	uid  int
}

// listUserDirs returns the user directories of all users. It stops reading the ledger directory at the deadline, since
// any user may fill that directory. If it has not read all names, it looks up by name the directories of all users who
// can have a valid entry. These are the users who have a running process or are in the user database.
func (d *Dir) listUserDirs(deadline time.Time) ([]userDir, error) {
	names, whole, err := d.listNames(d.dir, ".", maxListed, deadline)
	if err != nil {
		return nil, &UnusableError{d.path, err}
	}
	var found []userDir
	for _, name := range names {
		if s, is := d.parseUserDir(name); is {
			found = append(found, s)
		}
	}
	if !whole {
		found = append(found, d.guessUserDirs()...)
		err = d.checkReadCompletely(names)
	}
	me := os.Geteuid()
	slices.SortFunc(found, func(a, c userDir) int { // our directory first, so that no limit excludes it
		return cmp.Or(cmp.Compare(min(1, abs(a.uid-me)), min(1, abs(c.uid-me))), cmp.Compare(a.uid, c.uid), cmp.Compare(a.name, c.name))
	})
	return slices.Compact(found), err
}

func abs(n int) int { return max(n, -n) }

// parseUserDir parses the name of a user directory. It returns false if name is not the name of a user directory of
// this node.
func (d *Dir) parseUserDir(name string) (userDir, bool) {
	rest, is := strings.CutPrefix(name, d.prefix)
	digits, _, _ := strings.Cut(rest, ".")
	uid, err := strconv.ParseUint(digits, 10, 32)
	return userDir{name, int(uid)}, is && err == nil && digits == strconv.FormatUint(uid, 10)
}

// guessUserDirs looks up, by name, the directories of all users who can have a valid entry. It does not read
// the ledger directory.
func (d *Dir) guessUserDirs() (guessed []userDir) {
	uids := d.runningUsers()
	uids = append(uids, os.Geteuid())
	for uid := range d.users().names {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	for _, uid := range slices.Compact(uids) {
		guessed = append(guessed, userDir{fmt.Sprint(d.prefix, uid), uid})
	}
	return guessed
}

// runningUsers returns the users of all processes that this process can see.
func (d *Dir) runningUsers() (uids []int) {
	fd, err := openat(unix.AT_FDCWD, d.procDir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	names, _, _ := d.listNames(fd, ".", 1<<20, time.Now().Add(d.ReadTime))
	seen := make(map[int]bool)
	for _, name := range names {
		var st unix.Stat_t
		if _, err := strconv.Atoi(name); err == nil && unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && !seen[int(st.Uid)] {
			seen[int(st.Uid)] = true
			uids = append(uids, int(st.Uid))
		}
	}
	return uids
}

// checkReadCompletely returns a *LimitError if the entries of a user may be missing. Entries may be missing if the
// directory could not be read to its end and processes of other users are hidden from this process. Otherwise
// checkReadCompletely returns nil.
func (d *Dir) checkReadCompletely(names []string) error {
	var st unix.Stat_t
	if os.Geteuid() == 0 || unix.Stat(d.procDir+"/1", &st) == nil {
		return nil
	}
	count := make(map[int]int)
	for _, name := range names[max(0, len(names)-100):] {
		if unix.Fstatat(d.dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			count[int(st.Uid)]++
		}
	}
	most := -1
	for uid := range count {
		if most < 0 || count[uid] > count[most] {
			most = uid
		}
	}
	return &LimitError{d.path, d.userName(most), fmt.Sprintf("there are more than %s files", thousands(len(names)))}
}

// listNames reads up to limit names from a directory, until the deadline. name is the name of this directory within
// dir. complete is true if the directory has no more names.
func (d *Dir) listNames(dir int, name string, limit int, deadline time.Time) (names []string, complete bool, err error) {
	fd, err := d.openBelow(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, false, err
	}
	defer unix.Close(fd)
	return namesOf(fd, limit, deadline)
}

func namesOf(fd, limit int, deadline time.Time) (names []string, complete bool, err error) {
	buf := make([]byte, 8<<10)
	for len(names) <= limit && time.Now().Before(deadline) {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return names, err == nil, err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
	return names, false, nil
}

// openUserDir opens a user directory. It returns an error unless the directory belongs to s.uid and has mode 0755.
func (d *Dir) openUserDir(s userDir) (int, error) {
	fd, err := d.openBelow(d.dir, s.name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (int(st.Uid) != s.uid || st.Mode&0o7777 != 0o755) {
		err = errForeign
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openOwnDir opens the ledger directory of the current user, and creates the directory if necessary. If several
// processes of the user call it at the same time, all open the same directory.
func (d *Dir) openOwnDir() (int, userDir, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	uid := os.Geteuid()
	s := userDir{cmp.Or(d.ownDir, fmt.Sprint(d.prefix, uid)), uid}
	for range maxOwnDirTries {
		fd, err := d.openUserDir(s)
		if err == errForeign {
			fd, err = d.completeOwnDir(s)
		}
		switch {
		case err == nil:
			d.ownDir = s.name
			return fd, s, nil
		case err == unix.ENOENT:
			err = d.makeOwnDir(s.name)
		case err == errForeign || err == unix.ENOTDIR || err == unix.ELOOP || err == unix.EACCES || err == unix.EXDEV:
			// Another user has taken the name, or our directory has a wrong mode.
			s.name, err = d.otherOwnDir()
		}
		if err != nil && err != unix.EEXIST {
			return -1, s, &UnusableError{d.path, err}
		}
	}
	return -1, s, &UnusableError{d.path, errors.New("another process removes the directory each time mpiexec creates it")}
}

// maxOwnDirTries is the maximum number of tries of openOwnDir. A try fails only if another process changes the
// directories at the same time.
const maxOwnDirTries = 10

// completeOwnDir opens a directory of the current user that another process has created without yet giving the
// directory its final mode (makeOwnDir). It sets the mode. It returns errForeign if the directory does not belong
// to the current user, or if other users could write to the directory.
func (d *Dir) completeOwnDir(s userDir) (int, error) {
	fd, err := d.openBelow(d.dir, s.name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	if err = errForeign; isOwnDir(fd) {
		err = unix.Fchmod(fd, 0o755)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// sameTick is longer than a tick of the kernel's clock (1 to 10 ms). A directory that is created this long after
// another one has a later time of creation.
const sameTick = 20 * time.Millisecond

// otherOwnDir returns the name of the current user's directory if the usual name is taken. It chooses the oldest of
// the user's directories. If the user has none, otherOwnDir creates a directory with a random part in its name. If
// several processes call it at the same time, all choose the same directory, because each process decides only when
// no older directory can appear.
func (d *Dir) otherOwnDir() (name string, err error) {
	created := ""
	for {
		oldest, at := d.oldestOwnDir()
		age := time.Since(time.Unix(0, at))
		switch {
		case oldest == "" && created != "": // the ledger directory has more names than can be read
			return created, nil
		case oldest == "":
			created = fmt.Sprint(d.prefix, os.Geteuid(), ".", randomName())
			if err := unix.Mkdirat(d.dir, created, 0o700); err != nil {
				return created, err
			}
		case age < 0 || age > sameTick:
			if created != "" && created != oldest {
				unix.Unlinkat(d.dir, created, unix.AT_REMOVEDIR) // no process uses it: it was never the oldest
			}
			return oldest, nil
		}
		time.Sleep(sameTick)
	}
}

// oldestOwnDir returns the oldest directory of the current user to which other users cannot write, and its time of
// creation in ns of Unix time. If several are equally old, it returns the alphabetically first. oldest is "" if there
// is no such directory.
func (d *Dir) oldestOwnDir() (oldest string, createdFirst int64) {
	all, _ := d.listUserDirs(time.Now().Add(d.ReadTime)) // the directories that were found are enough
	for _, s := range all {                              // ordered by name
		if s.uid != os.Geteuid() {
			continue
		}
		fd, err := d.openBelow(d.dir, s.name, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			continue
		}
		if at := createdAt(fd); isOwnDir(fd) && (oldest == "" || at < createdFirst) {
			oldest, createdFirst = s.name, at
		}
		unix.Close(fd)
	}
	return oldest, createdFirst
}

// isOwnDir reports whether a directory belongs to the current user and other users cannot write to it.
func isOwnDir(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && int(st.Uid) == os.Geteuid() && st.Mode&0o022 == 0
}

// makeOwnDir creates a directory of the current user with mode 0755, whatever the umask is.
func (d *Dir) makeOwnDir(name string) error {
	if err := unix.Mkdirat(d.dir, name, 0o700); err != nil {
		return err
	}
	fd, err := d.openBelow(d.dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if uid := os.Geteuid(); int(st.Uid) != uid {
		return fmt.Errorf("the file system maps uid %d to uid %d", uid, st.Uid)
	}
	return unix.Fchmod(fd, 0o755)
}
