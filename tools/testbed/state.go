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

// A clusterOwner is what the process that made a field holds of it.
type clusterOwner struct {
	keeper      *exec.Cmd
	keeperInput *os.File // the keeper's stdin: its end takes the field down
	stop        []func() error
}

// nameCounter makes the names of unnamed fields differ within a process.
var nameCounter atomic.Int64

// stateRoot is the folder of all fields of this user. The names are known in advance,
// so for users without a runtime folder it must be one nobody else can write to.
func stateRoot() string {
	if os.Geteuid() == 0 {
		return "/run/remshell-field"
	}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		return filepath.Join(dir, "remshell-field")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("remshell-field-%d", os.Geteuid()))
}

// createState makes the empty state folder of a new field; what a dead field of that name
// has left goes first.
func createState(o Options, kind Kind) (*Cluster, error) {
	if o.Name == "" {
		o.Name = fmt.Sprintf("t%d-%d", os.Getpid(), nameCounter.Add(1))
	}
	if strings.ContainsAny(o.Name, "/ \t\n") || o.Name[0] == '.' {
		return nil, fmt.Errorf("field: name %q: not a file name without blanks", o.Name)
	}
	repo, err := Repo()
	if err != nil {
		return nil, err
	}
	root := stateRoot()
	if err := privateDir(root); err != nil {
		return nil, fmt.Errorf("field: %w", err)
	}
	f := &Cluster{Name: o.Name, Kind: kind, Repo: repo, State: filepath.Join(root, o.Name), owner: &clusterOwner{}}
	f.Home = f.path("home")
	err = os.Mkdir(f.State, 0o700)
	if errors.Is(err, fs.ErrExist) {
		if isAlive(f.State) {
			return nil, fmt.Errorf("field %s: is up already; take it down first", o.Name)
		}
		err = errors.Join(os.RemoveAll(f.State), os.Mkdir(f.State, 0o700))
	}
	return f, err
}

// privateDir makes dir, or sees that it is ours and nobody else may write to it.
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

// Repo returns the root of the repository: the folder of go.mod, from the working directory upwards.
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
			return "", fmt.Errorf("field: %s: not in the repository", wd)
		}
	}
}

// isAlive tells whether a field's keeper holds its lock. The kernel drops the lock with
// the last process that has it open, however that ends.
func isAlive(state string) bool {
	file, err := os.Open(filepath.Join(state, "lock"))
	if err != nil {
		return false
	}
	defer file.Close()
	return unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

// lock takes the lock that the keeper inherits.
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

func (f *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{f.State}, parts...)...)
}

// save writes what Open reads.
func (f *Cluster) save() error {
	text, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(f.path("field.json"), text, 0o600)
}

// Open returns a field that another process has made and keeps.
func Open(name string) (*Cluster, error) {
	state := filepath.Join(stateRoot(), name)
	text, err := os.ReadFile(filepath.Join(state, "field.json"))
	if err != nil || !isAlive(state) {
		return nil, fmt.Errorf("field %s: is not up; run: make testbed N=4", name)
	}
	f := new(Cluster)
	if err := json.Unmarshal(text, f); err != nil {
		return nil, fmt.Errorf("field %s: %w", name, err)
	}
	return f, nil
}

// RemoveDead removes what killed fields have left, and returns their names.
func RemoveDead() ([]string, error) {
	entries, err := os.ReadDir(stateRoot())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var gone []string
	for _, e := range entries {
		state := filepath.Join(stateRoot(), e.Name())
		info, infoErr := e.Info()
		// A field without a lock yet is just being made.
		if isAlive(state) || infoErr != nil || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		f := &Cluster{Name: e.Name(), State: state}
		if text, err := os.ReadFile(f.path("field.json")); err == nil {
			err = errors.Join(err, json.Unmarshal(text, f))
		}
		err = errors.Join(err, f.killStrays(), os.RemoveAll(state))
		gone = append(gone, e.Name())
	}
	return gone, err
}

// downTimeout is how long killed processes may take to go; it is milliseconds, unless a
// disk hangs.
const downTimeout = 20 * time.Second

// Down ends every process of the field and of its head, and removes its files. A
// second Down does nothing.
func (f *Cluster) Down() error {
	if f.State == "" {
		return nil
	}
	err := f.killStrays()
	if f.ProcessGroup > 0 && f.ProcessGroup != os.Getpid() && isAlive(f.State) {
		err = errors.Join(err, f.killGroup())
	}
	// A process in the middle of an exec shows no environment, and so no mark: by now it
	// has one.
	err = errors.Join(err, f.stopOwned(), f.killStrays(), os.RemoveAll(f.State))
	if err != nil {
		err = fmt.Errorf("field %s: down: %w", f.Name, err)
	}
	f.State = ""
	return err
}

// killGroup ends what holds the field together: process 1 of the PID namespace, with
// which the hosts go, or the sshds.
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

// stopOwned ends what belongs to this process.
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

// pidfd returns nil when there is no such process.
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

// waitPidfd waits for the end of a process that is no child. For process 1 of a
// namespace this is after the end of all others in it (pid_namespaces(7)).
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
