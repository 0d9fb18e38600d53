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

	"golang.org/x/sys/unix"

	"remshell/helper/owndir"
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
	dir   string   // the path of HOST.RANDOM
	above *os.Root // remshell-1000
	stage *os.Root // stage in it
	lock  *os.File
}

func (f *Folder) name() string { return filepath.Base(f.dir) }

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
	if err := replaceable(above); err != nil {
		return nil, err
	}
	if err := os.Mkdir(root, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	own, err := owndir.Open(root)
	if err != nil {
		return nil, err
	}
	if err := suitable(root, parcels); err != nil {
		own.Close()
		return nil, err
	}
	f := &Folder{dir: filepath.Join(root, "stage", name), above: own}
	if err = f.make(); err == nil {
		err = f.makeRoom(parcels)
	}
	if err != nil {
		f.remove()
		return nil, err
	}
	return f, nil
}

// replaceable says why everybody could put another folder in the place of one; nil: nobody can (TRUST-27).
func replaceable(dir string) error {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	for up := dir; ; up = filepath.Dir(up) {
		info, err := os.Lstat(up)
		if err != nil {
			return err
		}
		if info.Mode()&0o002 != 0 && info.Mode()&os.ModeSticky == 0 {
			return fmt.Errorf("everybody may change %s", up)
		}
		if up == "/" {
			return nil
		}
	}
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

// make makes the folder with its lock, which comes first: a folder without one is nobody's. Who
// removes an empty one beside us may take away the place for it.
func (f *Folder) make() (err error) {
	for range 10 {
		if err = f.makeLock(); err == nil {
			return f.stage.MkdirAll(filepath.Join(f.name(), "files"), 0o700)
		}
		f.close()
	}
	return err
}

// makeLock opens the folder around ours, and makes and takes our lock in it.
func (f *Folder) makeLock() (err error) {
	if err = f.above.Mkdir("stage", 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if f.stage, err = owndir.OpenIn(f.above, "stage"); err != nil {
		return err
	}
	if err = f.stage.Chmod(".", 0o700); err != nil {
		return err
	}
	if f.lock, err = f.stage.OpenFile(f.name()+".lock", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	}
	if !f.takeLock() {
		return unix.EAGAIN // somebody took it for one that is left over
	}
	return nil
}

// takeLock takes the lock, if nobody has it and it still is the one that others see.
func (f *Folder) takeLock() bool {
	if unix.Flock(int(f.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false
	}
	ours, err := f.lock.Stat()
	if err != nil {
		return false
	}
	seen, err := f.stage.Lstat(f.name() + ".lock")
	return err == nil && os.SameFile(ours, seen)
}

// makeRoom makes the files, each as large as it will be. Where the file system cannot
// promise that, nothing is promised.
func (f *Folder) makeRoom(parcels []job.Parcel) error {
	for _, p := range parcels {
		file, err := f.stage.OpenFile(filepath.Join(f.name(), "files", p.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
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
	if f.stage != nil {
		f.clear()
	}
	f.close()
	f.above.Close()
}

// clear removes the folder from the disk. What is above belongs to package reach as well.
func (f *Folder) clear() {
	f.stage.RemoveAll(f.name())
	f.stage.Remove(f.name() + ".lock")
	f.above.Remove("stage")
}

// close gives up the lock and the folder around ours.
func (f *Folder) close() {
	if f.lock != nil {
		f.lock.Close()
	}
	if f.stage != nil {
		f.stage.Close()
	}
	f.lock, f.stage = nil, nil
}

// sweep removes what killed helpers of this host have left.
func sweep(roots []string) {
	for _, root := range roots {
		eachStaged(root, func(above, stage *os.Root, file string) {
			name, locked := strings.CutSuffix(file, ".lock")
			if !locked || !strings.HasPrefix(name, hostName()+".") {
				return
			}
			lock, err := stage.OpenFile(file, os.O_RDWR|unix.O_NONBLOCK, 0)
			if err != nil {
				return
			}
			defer lock.Close()
			if left := (&Folder{dir: name, above: above, stage: stage, lock: lock}); left.takeLock() {
				left.clear()
			}
		})
	}
}

// eachStaged calls do with each name in the stage folder of a root, if both folders are ours.
func eachStaged(root string, do func(above, stage *os.Root, name string)) {
	above, err := owndir.Open(root)
	if err != nil {
		return
	}
	defer above.Close()
	stage, err := owndir.OpenIn(above, "stage")
	if err != nil {
		return
	}
	defer stage.Close()
	names, _ := owndir.Names(stage)
	for _, name := range names {
		do(above, stage, name)
	}
}
