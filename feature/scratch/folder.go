//go:build linux

package scratch

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"remshell/helper/owndir"
	"remshell/job"
)

/*
A folder is the folder for temporary files of one job on one node. The user may choose its parent directory, DIR. So
that later helpers find the folder, a record in a second directory contains its path:

	DIR/remshell-1000.RANDOM/       the folder; mode 0700
	/tmp/remshell-1000/             only this user may write
	  scratch/                      0700
	    HOST.RANDOM                 the record, locked as long as the helper lives: job, path, device and inode

If no process holds the lock of a record of this host, the folder is left over from a helper that was killed. A
folder that will be kept after the job has no record.
*/
type folder struct {
	path    string
	parent  int      // the directory that holds it (O_PATH)
	id      identity // of the folder
	records *os.Root // nil: no record
	record  *os.File
}

// An identity identifies a file, even if the file gets another name.
type identity struct{ dev, ino uint64 }

func identityOf(stat *unix.Stat_t) identity { return identity{uint64(stat.Dev), stat.Ino} }

// recordRoots returns the directories that may contain the directory of records. They do not depend on environment
// variables, so that later helpers, and the processes that clean up after a killed helper, find the records.
func recordRoots() (roots []string) {
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		roots = append(roots, fmt.Sprintf("%s/remshell-%d", dir, os.Geteuid()))
	}
	return roots
}

func newFolderName() string {
	return fmt.Sprintf("remshell-%d.%s", os.Geteuid(), strings.ToLower(rand.Text()[:12]))
}

// hostPrefix returns the prefix of the names of this host's records. Hosts may share the directory of records, but
// not the locks. So a helper must recognize the records of its own host by their names.
func hostPrefix() string {
	name, _ := os.Hostname()
	return hex.EncodeToString([]byte(name)) + "."
}

// makeFolder makes the folder of a job at path, which must not exist. Unless keep is set, it first makes a record of
// the folder in one of roots (recordRoots).
func makeFolder(roots []string, path string, id job.ID, keep bool) (f *folder, err error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if err := owndir.CheckReplaceable(dir); err != nil {
		return nil, err
	}
	f = &folder{path: path, parent: -1}
	defer func() {
		if err != nil {
			f.forget()
		}
	}()
	if f.parent, err = unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return f, err
	}
	resolved := filepath.Join(dir, filepath.Base(path))
	if !keep {
		if err := f.makeRecord(roots); err != nil {
			return f, fmt.Errorf("cannot record in %s that the folder must be removed later: %w", strings.Join(roots, ", "), err)
		}
		if err := f.writeRecord(id, resolved); err != nil {
			return f, err
		}
	}
	if err := unix.Mkdirat(f.parent, filepath.Base(path), 0o700); err != nil {
		return f, err
	}
	fd, err := unix.Openat(f.parent, filepath.Base(path), openFlags, 0)
	if err != nil {
		return f, err
	}
	defer unix.Close(fd)
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return f, err
	}
	if int(is.Uid) != os.Geteuid() {
		return f, owndir.ErrNotOwned
	}
	if err := unix.Fchmod(fd, 0o700); err != nil { // the umask may have removed bits
		return f, err
	}
	f.id = identityOf(&is)
	if !keep {
		err = f.writeRecord(id, resolved)
	}
	return f, err
}

// makeRecord makes the record in the first of the roots in which a record can be made, and locks it.
func (f *folder) makeRecord(roots []string) (err error) {
	for _, root := range roots {
		if err = f.makeRecordIn(root); err == nil {
			return nil
		}
	}
	return err
}

func (f *folder) makeRecordIn(root string) error {
	os.Mkdir(root, 0o700) // OpenIn reports what is wrong with it
	own, err := owndir.Open(root)
	if err != nil {
		return err
	}
	defer own.Close()
	own.Mkdir("scratch", 0o700)
	records, err := owndir.OpenIn(own, "scratch")
	if err != nil {
		return err
	}
	record, err := records.OpenFile(hostPrefix()+strings.ToLower(rand.Text()[:12]), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		records.Close()
		return err
	}
	f.records, f.record = records, record
	return unix.Flock(int(record.Fd()), unix.LOCK_EX|unix.LOCK_NB) // fails if another helper took it for a left-over one
}

// writeRecord writes the record. If f.id is zero, the record says that the folder has not been made yet.
func (f *folder) writeRecord(jobID job.ID, path string) error {
	_, err := f.record.WriteAt(fmt.Appendf(nil, "%s\n%q\n%d %d\n", jobID, path, f.id.dev, f.id.ino), 0)
	return err
}

// forget removes the record, so that later helpers do not remove the folder, and closes the open files.
func (f *folder) forget() {
	if f.record != nil {
		f.records.Remove(filepath.Base(f.record.Name()))
		f.record.Close()
		f.records.Close()
		f.record, f.records = nil, nil
	}
	if f.parent >= 0 {
		unix.Close(f.parent)
		f.parent = -1
	}
}

// remove removes the folder with its contents, and its record.
func (f *folder) remove() error {
	defer f.forget()
	return removeTree(f.parent, filepath.Base(f.path), f.id)
}

// lockTimeout is how long the guard of a killed mpiexec waits for the lock of the job's record. The guard is
// a process that waits at a pipe for the end of mpiexec. The kernel may release the lock after it has closed
// the pipe.
const lockTimeout = 2 * time.Second

// removeLeftFolders removes the folders that killed helpers have left behind on this host. killed is a job whose
// helper is known to have been killed, or "".
func removeLeftFolders(roots []string, killed job.ID) {
	for _, root := range roots {
		above, err := owndir.Open(root)
		if err != nil {
			continue
		}
		if records, err := owndir.OpenIn(above, "scratch"); err == nil {
			names, _ := owndir.ListNames(records)
			for _, name := range names {
				if strings.HasPrefix(name, hostPrefix()) {
					removeLeftFolder(records, name, killed)
				}
			}
			records.Close()
		}
		above.Close()
	}
}

// removeLeftFolder removes the record with this name, and the folder that it describes. It does nothing while a
// process locks the record. killed is the ID of a job whose helper was killed. If the record belongs to this job,
// removeLeftFolder waits up to lockTimeout for the lock.
func removeLeftFolder(records *os.Root, name string, killed job.ID) {
	record, err := records.OpenFile(name, os.O_RDWR|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer record.Close()
	deadline := time.Now().Add(lockTimeout)
	for unix.Flock(int(record.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		if of, _, _ := readRecord(record); killed == "" || of != killed || time.Now().After(deadline) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	_, path, id := readRecord(record)
	if path != "" && id != (identity{}) {
		parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			removeTree(parent, filepath.Base(path), id)
			unix.Close(parent)
		}
	} else if path != "" {
		unix.Rmdir(path) // the helper was killed while it made the folder
	}
	records.Remove(name)
}

// readRecord reads a record. It returns zero values for the parts that it cannot read.
func readRecord(record *os.File) (jobID job.ID, path string, id identity) {
	content, _ := io.ReadAll(io.NewSectionReader(record, 0, 16<<10))
	fmt.Sscanf(string(content), "%s\n%q\n%d %d\n", &jobID, &path, &id.dev, &id.ino)
	if !filepath.IsAbs(path) {
		return jobID, "", identity{}
	}
	return jobID, path, id
}
