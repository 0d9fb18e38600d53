//go:build linux

package stage

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"remshell/helper/rank"
	"remshell/job"
)

/*
A Folder is where the files of one job lie on one node (--stage, doc/adr/0009):

	/tmp/remshell-1000/          ours, nobody else may write: as the cache of package reach
	  stage/                     0700
	    HOST.RANDOM.lock         locked as long as the helper lives
	    HOST.RANDOM/
	      sha256-...             one for each file, for other jobs of ours to copy from
	      files/                 MPIEXEC_STAGE_DIR
	        solver, in.dat       and what the ranks put there

Who finds a lock that nobody holds, of a helper on the same host, removes the folder: the
next helper that stages, and the keeper of one that was killed.
*/
type Folder struct {
	dir  string // HOST.RANDOM
	lock *os.File
}

func (f *Folder) files() string { return filepath.Join(f.dir, "files") }

// sum is the name of a file by what is in it.
func (f *Folder) sum(sum string) string { return filepath.Join(f.dir, "sha256-"+sum) }

// rootsOf are the places for such folders, local disks first: a home may be shared by all
// nodes, each of which needs the files, and has to get rid of them.
func rootsOf(environ []string) (roots []string) {
	own := "remshell-" + strconv.Itoa(os.Geteuid())
	for _, dir := range []string{job.Value(environ, "TMPDIR"), "/tmp", "/var/tmp"} {
		if filepath.IsAbs(dir) {
			roots = append(roots, filepath.Join(dir, own))
		}
	}
	if dir := job.Value(environ, "XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		roots = append(roots, filepath.Join(dir, "remshell"))
	}
	if dir := job.Value(environ, "HOME"); filepath.IsAbs(dir) {
		roots = append(roots, filepath.Join(dir, ".cache", "remshell"))
	}
	return append(roots, filepath.Join("/dev/shm", own))
}

// Sweep removes what killed helpers have left in the folders that an environment names.
func Sweep(environ []string) { sweep(rootsOf(environ)) }

// Environ is what a guard needs of our environment to find such folders.
func Environ() (environ []string) {
	for _, name := range []string{"TMPDIR", "XDG_CACHE_HOME", "HOME"} {
		if value, ok := os.LookupEnv(name); ok {
			environ = append(environ, name+"="+value)
		}
	}
	return environ
}

// newName names a folder after this host, whose helpers alone may remove it: the locks
// of another host may not be seen here.
func newName() string { return hostName() + "." + strings.ToLower(rand.Text()[:16]) }

func hostName() string {
	name, _ := os.Hostname()
	return hex.EncodeToString([]byte(name))
}

// makeFolder makes a folder in the first root that is safe and takes these files, and
// makes room for them, so that a disk that is too small is known before anything is sent.
func makeFolder(roots []string, name string, parcels []job.Parcel) (*Folder, error) {
	var whys []string
	for _, root := range roots {
		f, err := makeIn(root, name, parcels)
		if err == nil {
			return f, nil
		}
		whys = append(whys, fmt.Sprintf("%s: %s", root, wordOf(err)))
	}
	return nil, errors.New(strings.Join(whys, ", "))
}

// wordOf is what is wrong with a folder.
func wordOf(err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "no room"
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "cannot be written"
	}
	return rank.BareErr(err).Error()
}

func makeIn(root, name string, parcels []job.Parcel) (*Folder, error) {
	above := filepath.Dir(root)
	if err := os.MkdirAll(above, 0o700); err != nil {
		return nil, err
	}
	if err := ourFolder(root); err != nil {
		return nil, err
	}
	if err := suitable(root, parcels); err != nil {
		return nil, err
	}
	f, err := newStageFolder(filepath.Join(root, "stage"), name)
	if err != nil {
		return nil, err
	}
	if err := f.makeRoom(parcels); err != nil {
		f.remove()
		return nil, err
	}
	return f, nil
}

// ourFolder makes a folder that is ours alone, or sees that it is: no link, and neither it
// nor what leads to it can be changed by others (TRUST-27).
func ourFolder(dir string) error {
	above, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return err
	}
	for up := above; ; up = filepath.Dir(up) {
		info, err := os.Lstat(up)
		if err != nil {
			return err
		}
		if info.Mode()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
			return fmt.Errorf("everybody may change %s", up)
		}
		if up == "/" {
			break
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir() || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid():
		return errors.New("belongs to somebody else")
	case info.Mode()&0o022 != 0:
		return errors.New("others may write there")
	}
	return nil
}

// suitable looks whether a file system has room for files, and lets programs run.
func suitable(dir string, parcels []job.Parcel) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return err
	}
	var size int64
	for _, p := range parcels {
		size += p.Size
		if p.Runnable() && fs.Flags&unix.ST_NOEXEC != 0 {
			return errors.New("no program can be run there (noexec)")
		}
	}
	if fs.Blocks > 0 && uint64(size)/uint64(fs.Bsize) >= fs.Bavail { // 0: it knows no limit
		return unix.ENOSPC
	}
	return nil
}

// newStageFolder makes a folder with its lock, which comes first: a folder without one is
// nobody's. Who removes an empty one beside us may take away the place for it.
func newStageFolder(stage, name string) (*Folder, error) {
	var err error
	for range 10 {
		if err = ourFolder(stage); err != nil {
			return nil, err
		}
		if err = os.Chmod(stage, 0o700); err != nil {
			continue
		}
		f := &Folder{dir: filepath.Join(stage, name)}
		if f.lock, err = os.OpenFile(f.dir+".lock", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			continue
		}
		if unix.Flock(int(f.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !f.locked() {
			f.lock.Close() // somebody took it for one that is left over
			err = unix.EAGAIN
			continue
		}
		if err = os.Mkdir(f.dir, 0o700); err == nil {
			err = os.Mkdir(f.files(), 0o700)
		}
		if err != nil {
			f.remove()
			return nil, err
		}
		return f, nil
	}
	return nil, err
}

// locked reports whether the lock that we hold is still the one that others see.
func (f *Folder) locked() bool {
	ours, err := f.lock.Stat()
	if err != nil {
		return false
	}
	seen, err := os.Lstat(f.lock.Name())
	return err == nil && os.SameFile(ours, seen)
}

// makeRoom makes the files, each as large as it will be. Where the file system cannot
// promise that, nothing is promised.
func (f *Folder) makeRoom(parcels []job.Parcel) error {
	for _, p := range parcels {
		file, err := os.OpenFile(filepath.Join(f.files(), p.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		if p.Size > 0 {
			err = unix.Fallocate(int(file.Fd()), 0, 0, p.Size)
		}
		file.Close()
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			return unix.ENOSPC
		}
	}
	return nil
}

// remove removes the folder, and the one around it if that is empty then.
func (f *Folder) remove() {
	removeStage(f.dir)
	f.lock.Close()
}

func removeStage(dir string) {
	os.RemoveAll(dir)
	os.Remove(dir + ".lock")
	os.Remove(filepath.Dir(dir)) // what is above it belongs to package reach as well
}

// sweep removes what killed helpers of this host have left.
func sweep(roots []string) {
	for _, root := range roots {
		locks, _ := filepath.Glob(filepath.Join(root, "stage", hostName()+".*.lock"))
		for _, path := range locks {
			lock, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
			if err != nil {
				continue
			}
			left := &Folder{dir: strings.TrimSuffix(path, ".lock"), lock: lock}
			if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && left.locked() {
				left.remove()
				continue
			}
			lock.Close()
		}
	}
}
