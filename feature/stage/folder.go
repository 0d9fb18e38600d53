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
A folder holds the staged files of one job on one node (--stage, doc/adr/0009):

	/tmp/remshell-1000/          only this user may write; also the cache of package transport
	  stage/                     0700
	    HOST.RANDOM.lock         locked as long as the helper lives
	    HOST.RANDOM/
	      sha256-...             one for each file, from which other jobs of this user copy
	      files/                 MPIEXEC_STAGE_DIR
	        solver, in.dat       and the files that ranks write there

A folder of this host whose lock no process holds is left over. The next helper that stages files, or
the reaper of a killed helper, removes it.
*/
type folder struct {
	dir      string   // path of HOST.RANDOM
	parent   *os.Root // remshell-1000
	stageDir *os.Root // its directory stage
	lock     *os.File
}

func (f *folder) folderName() string { return filepath.Base(f.dir) }

func (f *folder) filesDir() string { return filepath.Join(f.dir, "files") }

// sumPath returns the path of the file with this hash.
func (f *folder) sumPath(sum string) string { return filepath.Join(f.dir, "sha256-"+sum) }

// stagingRoots returns the directories that may hold staging folders, in the order in which they are tried:
// directories on local disks, the cache directory of the user, and /dev/shm. If all nodes share the home
// directory, each node makes and removes a folder of its own there.
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

// newFolderName returns a new folder name that contains this host's name. Only helpers on this host remove the folder,
// because other hosts might not see the lock.
func newFolderName() string { return hostName() + "." + strings.ToLower(rand.Text()[:16]) }

func hostName() string {
	name, _ := os.Hostname()
	return hex.EncodeToString([]byte(name))
}

// makeFolder creates a folder in the first safe root that has space for the files. It reserves the space, so
// that a full disk is noticed before mpiexec sends a file.
func makeFolder(roots []string, name string, files []job.StagedFile) (*folder, error) {
	var whys []string
	for _, root := range roots {
		f, err := makeFolderIn(root, name, files)
		if err == nil {
			return f, nil
		}
		whys = append(whys, fmt.Sprintf("%s: %s", root, folderProblem(err)))
	}
	return nil, errors.New(strings.Join(whys, ", "))
}

// folderProblem returns the reason why a folder cannot be used, as messages show it to the user.
func folderProblem(err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "no room"
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return "mpiexec cannot write to the folder"
	}
	return rank.WithoutPath(err).Error()
}

func makeFolderIn(root, name string, files []job.StagedFile) (*folder, error) {
	above := filepath.Dir(root)
	if err := os.MkdirAll(above, 0o700); err != nil {
		return nil, err
	}
	if err := owndir.CheckReplaceable(above); err != nil {
		return nil, err
	}
	if err := os.Mkdir(root, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	own, err := owndir.Open(root)
	if err != nil {
		return nil, err
	}
	if err := checkFileSystem(root, files); err != nil {
		own.Close()
		return nil, err
	}
	f := &folder{dir: filepath.Join(root, "stage", name), parent: own}
	if err = f.create(); err == nil {
		err = f.allocateFiles(files)
	}
	if err != nil {
		f.removeAll()
		return nil, err
	}
	return f, nil
}

// checkFileSystem checks that the file system of dir has space for the files and allows programs to run.
func checkFileSystem(dir string, files []job.StagedFile) error {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return err
	}
	var size int64
	for _, p := range files {
		size += p.Size
		if p.IsExecutable() && fs.Flags&unix.ST_NOEXEC != 0 {
			return errors.New("the file system does not allow programs to run (noexec)")
		}
	}
	if fs.Blocks > 0 && uint64(size)/uint64(fs.Bsize) >= fs.Bavail { // 0: the file system has no limit
		return unix.ENOSPC
	}
	return nil
}

// create creates the folder and its lock file. The lock file is created first, because a folder without a locked file
// is treated as left over. If another helper removes an empty stage directory meanwhile, create tries again.
func (f *folder) create() (err error) {
	for range 10 {
		if err = f.makeLock(); err == nil {
			return f.stageDir.MkdirAll(filepath.Join(f.folderName(), "files"), 0o700)
		}
		f.close()
	}
	return err
}

// makeLock opens the stage directory, and creates and locks the lock file in it.
func (f *folder) makeLock() (err error) {
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
		return unix.EAGAIN // another helper took it for a left-over one
	}
	return nil
}

// takeLock locks the lock file. It returns false if another process has the lock, or the file was replaced.
func (f *folder) takeLock() bool {
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

// allocateFiles creates the files with their final sizes, and reserves the space if the file system can.
func (f *folder) allocateFiles(files []job.StagedFile) error {
	for _, p := range files {
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

// removeAll removes the folder, and the stage directory if that is empty afterwards. It also releases the lock and
// closes all open files.
func (f *folder) removeAll() {
	if f.stageDir != nil {
		f.removeFromDisk()
	}
	f.close()
	f.parent.Close()
}

// removeFromDisk removes the folder and its lock file, and the stage directory if that is empty afterwards. It keeps
// the parent of the stage directory, because package transport uses it as well.
func (f *folder) removeFromDisk() {
	f.stageDir.RemoveAll(f.folderName())
	f.stageDir.Remove(f.folderName() + ".lock")
	f.parent.Remove("stage")
}

// close releases the lock and closes the open stage directory.
func (f *folder) close() {
	if f.lock != nil {
		f.lock.Close()
	}
	if f.stageDir != nil {
		f.stageDir.Close()
	}
	f.lock, f.stageDir = nil, nil
}

// removeLeftFolders removes the folders that killed helpers of this host have left behind.
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
			if left := (&folder{dir: name, parent: above, stageDir: stage, lock: lock}); left.takeLock() {
				left.removeFromDisk()
			}
		})
	}
}

// eachStaged calls the function do for each name in the stage directory of a root, if both directories belong to this
// user.
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
