//go:build linux

package testbed

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A clusterOwner contains the parts of a Cluster that exist only in the process that called Up.
type clusterOwner struct {
	keeper      *exec.Cmd      // see startKeeper; nil: none
	keeperInput *os.File       // write end of the keeper's stdin: the keeper takes the cluster down when it is closed
	stop        []func() error // called by Down
}

// nameCounter is a counter for the generated names of clusters, which makes them unique within a process.
var nameCounter atomic.Int64

// stateRoot returns the directory that contains the state directories of this user's clusters. If it is in /tmp,
// another user can predict its name, so callers must check it with privateDir.
func stateRoot() string {
	if os.Geteuid() == 0 {
		return "/run/remshell-field"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "remshell-field")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("remshell-field-%d", os.Geteuid()))
}

// createState creates the empty state directory of a new cluster. If a cluster of the same name is up, createState
// returns an error. If there is only a directory of such a cluster, createState first removes it.
func createState(o Options, kind Kind) (*Cluster, error) {
	if o.Name == "" {
		o.Name = fmt.Sprintf("t%d-%d", os.Getpid(), nameCounter.Add(1))
	}
	if strings.ContainsAny(o.Name, "/ \t\n") || o.Name[0] == '.' {
		return nil, fmt.Errorf("testbed: name %q: not a file name without blanks", o.Name)
	}
	repo, err := Repo()
	if err != nil {
		return nil, err
	}
	root := stateRoot()
	f := &Cluster{Name: o.Name, Kind: kind, Repo: repo, State: filepath.Join(root, o.Name), owner: &clusterOwner{}}
	f.Home = f.path("home")
	err = fs.ErrNotExist
	for errors.Is(err, fs.ErrNotExist) { // again if the Down of another cluster removes root in between
		if err := privateDir(root); err != nil {
			return nil, fmt.Errorf("testbed: %w", err)
		}
		err = os.Mkdir(f.State, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		if isAlive(f.State) {
			return nil, fmt.Errorf("test cluster %s: is up already; take it down first", o.Name)
		}
		err = errors.Join(os.RemoveAll(f.State), os.Mkdir(f.State, 0o700))
	}
	return f, err
}

// privateDir creates dir if it does not exist. It returns an error unless this user owns dir and no other user can
// write to dir.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("%s: is not a folder only this user can write to", dir)
	}
	return nil
}

// Repo returns the root directory of the repository. It is the working directory or the closest parent directory
// that contains a go.mod.
func Repo() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("testbed: %s: not in the repository", wd)
		}
	}
}

// isAlive reports whether a cluster is up. A cluster is up if the lock file in its state directory is locked. The
// kernel releases the lock when the last process that has the file open ends, even if the process is killed.
func isAlive(state string) bool {
	file, err := os.Open(filepath.Join(state, "lock"))
	if err != nil {
		return false
	}
	defer file.Close()
	return unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

// lock locks the cluster's lock file. The keeper (see startKeeper) inherits the open file, and therefore the lock.
func (f *Cluster) lock() (*os.File, error) {
	file, err := os.OpenFile(f.path("lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		file.Close()
		return nil, fmt.Errorf("lock: %w", err)
	}
	return file, nil
}

// path returns the path of a file in the state directory.
func (f *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{f.State}, parts...)...)
}

// save writes the exported fields of the cluster to the file field.json, which Open reads.
func (f *Cluster) save() error {
	text, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(f.path("field.json"), text, 0o600)
}

// Open returns a cluster that another process has created. It returns an error if no cluster of this name is up.
func Open(name string) (*Cluster, error) {
	state := filepath.Join(stateRoot(), name)
	text, err := os.ReadFile(filepath.Join(state, "field.json"))
	if err != nil || !isAlive(state) {
		return nil, fmt.Errorf("test cluster %s: is not up; run: make testbed N=4", name)
	}
	f := new(Cluster)
	if err := json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("test cluster %s: %w", name, err)
	}
	return f, nil
}

// RemoveDead removes the remaining processes and files of clusters that are no longer up, and returns the names of
// these clusters. Such files remain if the process that called Up and its keeper were killed.
func RemoveDead() ([]string, error) {
	entries, err := os.ReadDir(stateRoot())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var removed []string
	for _, e := range entries {
		state := filepath.Join(stateRoot(), e.Name())
		info, infoErr := e.Info()
		// A young state folder without a lock belongs to a cluster that is just being created.
		if isAlive(state) || infoErr != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		f := &Cluster{Name: e.Name(), State: state}
		if text, err := os.ReadFile(f.path("field.json")); err == nil {
			err = errors.Join(err, json.Unmarshal(text, f))
		}
		err = errors.Join(err, f.killStrays(), os.RemoveAll(state))
		removed = append(removed, e.Name())
	}
	os.Remove(stateRoot()) // fails if it has other clusters
	return removed, err
}

// downTimeout is the maximum time to wait for the end of killed processes. They end within milliseconds, unless a
// disk hangs.
const downTimeout = 20 * time.Second

// Down kills all processes of the cluster, including those on the head, and removes the cluster's files. A second
// call does nothing.
func (f *Cluster) Down() error {
	if f.State == "" {
		return nil
	}
	err := f.killStrays()
	if f.ProcessGroup > 0 && f.ProcessGroup != os.Getpid() && isAlive(f.State) {
		err = errors.Join(err, f.killGroup())
	}
	// During an exec, a process shows no environment, and so no mark. The second
	// killStrays finds processes that were in an exec before.
	err = errors.Join(err, f.stopOwned(), f.killStrays(), os.RemoveAll(f.State))
	if err != nil {
		err = fmt.Errorf("test cluster %s: down: %w", f.Name, err)
	}
	os.Remove(filepath.Dir(f.State)) // fails if it has other clusters
	f.State = ""
	return err
}

// killGroup kills the keeper's process group and waits for its end. With kind Namespaces, the group includes
// process 1 of the outer PID namespace, whose end kills all processes of the hosts. With kind Loopback, the group
// includes the sshds.
func (f *Cluster) killGroup() error {
	ended := pidfd(f.HeadPID)
	if err := unix.Kill(-f.ProcessGroup, unix.SIGKILL); err != nil {
		return err
	}
	return errors.Join(waitPidfd(ended, downTimeout), waitGone(func(p Process) bool {
		group, err := unix.Getpgid(p.PID)
		return err == nil && group == f.ProcessGroup
	}))
}

// stopOwned ends the servers and the keeper that this process has started. It does nothing for a Cluster from Open.
func (f *Cluster) stopOwned() error {
	if f.owner == nil {
		return nil
	}
	var err error
	for _, stop := range f.owner.stop {
		err = errors.Join(err, stop())
	}
	if f.owner.keeperInput != nil {
		f.owner.keeperInput.Close()
	}
	if f.owner.keeper != nil {
		_ = f.owner.keeper.Wait() // it was killed
	}
	return err
}

// pidfd opens a pidfd of a process. It returns nil if there is no such process.
func pidfd(pid int) *os.File {
	if pid <= 0 {
		return nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(fd), "pidfd:"+strconv.Itoa(pid))
}

// waitPidfd waits until the process of a pidfd has ended. It returns an error if the process has not ended
// within limit. The process need not be a child of this process. Process 1 of a PID namespace ends last, so all
// processes of the namespace have then ended (pid_namespaces(7)). If file is nil, waitPidfd returns at once.
func waitPidfd(file *os.File, limit time.Duration) error {
	if file == nil {
		return nil
	}
	defer file.Close()
	fds := []unix.PollFd{{Fd: int32(file.Fd()), Events: unix.POLLIN}}
	deadline := time.Now().Add(limit)
	for time.Now().Before(deadline) {
		n, err := unix.Poll(fds, int(time.Until(deadline)/time.Millisecond)+1)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return fmt.Errorf("%s is still there after %v", file.Name(), limit)
}
