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

	/tmp/remshell-1000/          ours, nobody else may write: as the cache of package transport
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
	dir      string   // the path of HOST.RANDOM
	parent   *os.Root // remshell-1000
	stageDir *os.Root // stage in it
	lock     *os.File
}

func (f *Folder) folderName() string { return filepath.Base(f.dir) }

func (f *Folder) filesDir() string { return filepath.Join(f.dir, "files") }

// sumPath is the name of a file by what is in it.
func (f *Folder) sumPath(sum string) string { return filepath.Join(f.dir, "sha256-"+sum) }

// stagingRoots are the places for such folders, local disks first: a home may be shared by all
// nodes, each of which needs the files, and has to get rid of them.
func stagingRoots(environ []string) (roots []string) {
	own := "remshell-" + strconv.Itoa(os.Geteuid())
	for _, dir := range []string{job.EnvValue(environ, "TMPDIR"), "/tmp", "/var/tmp"} {
		if filepath.IsAbs(dir) {
			roots = append(roots, filepath.Join(dir, own))
		}
	}
	if dir := job.EnvValue(environ, "XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		roots = append(roots, filepath.Join(dir, "remshell"))
	}
	if dir := job.EnvValue(environ, "HOME"); filepath.IsAbs(dir) {
		roots = append(roots, filepath.Join(dir, ".cache", "remshell"))
	}
	return append(roots, filepath.Join("/dev/shm", own))
}

// RemoveLeftFolders removes what killed helpers have left in the folders that an environment names.
func RemoveLeftFolders(environ []string) { removeLeftFolders(stagingRoots(environ)) }

// GuardEnviron is what a guard needs of our environment to find such folders.
func GuardEnviron() (environ []string) {
	for _, name := range []string{"TMPDIR", "XDG_CACHE_HOME", "HOME"} {
		if value, ok := os.LookupEnv(name); ok {
			environ = append(environ, name+"="+value)
		}
	}
	return environ
}

// newFolderName names a folder after this host, whose helpers alone may remove it: the locks
// of another host may not be seen here.
func newFolderName() string { return hostName() + "." + strings.ToLower(rand.Text()[:16]) }

func hostName() string {
	name, _ := os.Hostname()
	return hex.EncodeToString([]byte(name))
}

// makeFolder makes a folder in the first root that is safe and takes these files, and
// makes room for them, so that a disk that is too small is known before anything is sent.
func makeFolder(roots []string, name string, parcels []job.StagedFile) (*Folder, error) {
	var whys []string
	for _, root := range roots {
		f, err := makeFolderIn(root, name, parcels)
		if err == nil {
			return f, nil
		}
		whys = append(whys, fmt.Sprintf("%s: %s", root, folderProblem(err)))
	}
	return nil, errors.New(strings.Join(whys, ", "))
}

// folderProblem is what is wrong with a folder.
func folderProblem(err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "no room"
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "cannot be written"
	}
	return rank.WithoutPath(err).Error()
}

func makeFolderIn(root, name string, parcels []job.StagedFile) (*Folder, error) {
	above := filepath.Dir(root)
	if err := os.MkdirAll(above, 0o700); err != nil {
		return nil, err
	}
	if err := checkReplaceable(above); err != nil {
		return nil, err
	}
	if err := os.Mkdir(root, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	own, err := owndir.Open(root)
	if err != nil {
		return nil, err
	}
	if err := checkFileSystem(root, parcels); err != nil {
		own.Close()
		return nil, err
	}
	f := &Folder{dir: filepath.Join(root, "stage", name), parent: own}
	if err = f.create(); err == nil {
		err = f.allocateFiles(parcels)
	}
	if err != nil {
		f.removeAll()
		return nil, err
	}
	return f, nil
}

// checkReplaceable says why everybody could put another folder in the place of one; nil: nobody can (TRUST-27).
func checkReplaceable(dir string) error {
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

// checkFileSystem looks whether a file system has room for files, and lets programs run.
func checkFileSystem(dir string, parcels []job.StagedFile) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return err
	}
	var size int64
	for _, p := range parcels {
		size += p.Size
		if p.IsExecutable() && fs.Flags&unix.ST_NOEXEC != 0 {
			return errors.New("no program can be run there (noexec)")
		}
	}
	if fs.Blocks > 0 && uint64(size)/uint64(fs.Bsize) >= fs.Bavail { // 0: it knows no limit
		return unix.ENOSPC
	}
	return nil
}

// create makes the folder with its lock, which comes first: a folder without one is nobody's. Who
// removes an empty one beside us may take away the place for it.
func (f *Folder) create() (err error) {
	for range 10 {
		if err = f.makeLock(); err == nil {
			return f.stageDir.MkdirAll(filepath.Join(f.folderName(), "files"), 0o700)
		}
		f.close()
	}
	return err
}

// makeLock opens the folder around ours, and makes and takes our lock in it.
func (f *Folder) makeLock() (err error) {
	if err = f.parent.Mkdir("stage", 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if f.stageDir, err = owndir.OpenIn(f.parent, "stage"); err != nil {
		return err
	}
	if err = f.stageDir.Chmod(".", 0o700); err != nil {
		return err
	}
	if f.lock, err = f.stageDir.OpenFile(f.folderName()+".lock", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
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
	seen, err := f.stageDir.Lstat(f.folderName() + ".lock")
	return err == nil && os.SameFile(ours, seen)
}

// allocateFiles makes the files, each as large as it will be. Where the file system cannot
// promise that, nothing is promised.
func (f *Folder) allocateFiles(parcels []job.StagedFile) error {
	for _, p := range parcels {
		file, err := f.stageDir.OpenFile(filepath.Join(f.folderName(), "files", p.Name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
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

// removeAll removes the folder, and the one around it if that is empty then.
func (f *Folder) removeAll() {
	if f.stageDir != nil {
		f.removeFromDisk()
	}
	f.close()
	f.parent.Close()
}

// removeFromDisk removes the folder from the disk. What is above belongs to package transport as well.
func (f *Folder) removeFromDisk() {
	f.stageDir.RemoveAll(f.folderName())
	f.stageDir.Remove(f.folderName() + ".lock")
	f.parent.Remove("stage")
}

// close gives up the lock and the folder around ours.
func (f *Folder) close() {
	if f.lock != nil {
		f.lock.Close()
	}
	if f.stageDir != nil {
		f.stageDir.Close()
	}
	f.lock, f.stageDir = nil, nil
}

// removeLeftFolders removes what killed helpers of this host have left.
func removeLeftFolders(roots []string) {
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
			if left := (&Folder{dir: name, parent: above, stageDir: stage, lock: lock}); left.takeLock() {
				left.removeFromDisk()
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
	names, _ := owndir.ListNames(stage)
	for _, name := range names {
		do(above, stage, name)
	}
}
