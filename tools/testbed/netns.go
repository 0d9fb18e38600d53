//go:build linux

package testbed

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// These scripts are copied to the cluster's state directory and run there with sh. So they remain available
// when go run or go test removes its temporary files.
var (
	//go:embed scripts/keeper.sh
	keeperScript string
	//go:embed scripts/head.sh
	headScript string
	//go:embed scripts/host.sh
	hostScript string
	//go:embed scripts/loopback.sh
	loopbackScript string
)

// hostDir is the directory in which a host of kind Namespaces sees its own files.
const hostDir = "/run/field"

// headAddr is the address of the head. MaxHosts makes sure that no host has this address.
const headAddr = "10.88.255.254"

// upNamespaces creates the hosts. It writes their files and starts the head and the hosts, which report their PIDs.
// Then one run of ip(8) creates a link for each host. Finally each host sets up its link and starts sshd.
func (f *Cluster) upNamespaces(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // against a host that never starts
	defer cancel()
	for i := range o.Hosts {
		addr := fmt.Sprintf("10.88.%d.%d", (i+1)>>8, (i+1)&255)
		f.Hosts = append(f.Hosts, Host{Name: "n" + strconv.Itoa(i+1), Addr: addr, Port: 22})
	}
	if err := f.netnsFiles(o); err != nil {
		return err
	}
	raiseNeighbourLimits(o.Hosts)
	linksReady, pids, err := f.startKeeper(o, "unshare", "--net", "/bin/sh", f.path("keeper.sh"))
	if err != nil {
		return err
	}
	defer pids.Close()
	err = f.readPIDs(ctx, pids)
	if err == nil {
		err = f.linkHosts(ctx)
	}
	linksReady.Close()
	if err != nil {
		return err
	}
	if err := f.waitSSHD(ctx); err != nil {
		return err
	}
	f.keepLoads(o.LoadEvery)
	if o.Slurm {
		err = f.upSlurm(ctx)
	}
	if o.SGE && err == nil {
		err = f.upSGE(ctx)
	}
	if o.Condor && err == nil {
		err = f.upCondor(ctx)
	}
	return err
}

// netnsFiles writes all files of the cluster's state directory. It creates the directory bin/ of the repository
// if that does not exist.
func (f *Cluster) netnsFiles(o Options) error {
	userKey, userPub, err := newKey("root@head")
	if err != nil {
		return err
	}
	files, err := f.etcFiles(o)
	if err != nil {
		return err
	}
	for i, h := range f.Hosts {
		host, err := f.hostFiles(o, i, hostDir)
		if err != nil {
			return err
		}
		files = append(files, host...)
		files = append(files, file{"hosts/" + h.Name + "/ip", 0o600,
			"link set lo up\naddr add " + h.Addr + "/16 dev eth0\nlink set eth0 up\n"})
	}
	files = append(files, f.homeFiles(o, userKey, userPub)...)
	files = append(files, f.loadFiles(o)...)
	if o.Slurm {
		files = append(files, f.slurmFiles()...)
	}
	if o.SGE {
		files = append(files, f.sgeFiles()...)
	}
	if o.Condor {
		files = append(files, f.condorFiles()...)
	}
	files = append(files, startupFiles("skel")...)
	files = append(files,
		file{"skel/.ssh/authorized_keys", 0o600, userPub + "\n"},
		file{"fstab", 0o600, f.fstab(o)},
		file{"head.ip", 0o600, "link set lo up\n" +
			"link add br0 type bridge forward_delay 0 stp_state 0 mcast_snooping 0\n" +
			"addr add " + headAddr + "/16 dev br0\nlink set br0 up\n"},
		file{"keeper.sh", 0o600, keeperScript},
		file{"head.sh", 0o600, headScript},
		file{"host.sh", 0o600, hostScript},
	)
	// host.sh mounts a tmpfs over bin/, which must exist for that.
	if err := os.MkdirAll(filepath.Join(f.Repo, "bin"), 0o755); err != nil {
		return err
	}
	return f.writeFiles(files)
}

// etcFiles returns the files that the head and the hosts see in /etc instead of the machine's own. Host names come
// only from the file hosts. Root can log in with a key and has o.Shell as its login shell.
func (f *Cluster) etcFiles(o Options) ([]file, error) {
	var hosts strings.Builder
	fmt.Fprintf(&hosts, "127.0.0.1 localhost\n%s %s\n", headAddr, Head)
	for _, h := range f.Hosts {
		fmt.Fprintf(&hosts, "%s %s\n", h.Addr, h.Name)
	}
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return nil, err
	}
	shadow, err := os.ReadFile("/etc/shadow")
	if err != nil {
		return nil, err
	}
	users := string(passwd)
	if o.Shell != "" {
		users = setColumn(users, "root", 6, o.Shell)
	}
	if o.Condor {
		users += condorPasswd()
	}
	return []file{
		{"etc/hosts", 0o644, hosts.String()},
		{"etc/nsswitch.conf", 0o644, "passwd: files\ngroup: files\nshadow: files\nhosts: files\n"},
		{"etc/passwd", 0o644, users},
		// sshd without PAM refuses an account whose password begins with "!".
		{"etc/shadow", 0o600, setColumn(string(shadow), "root", 1, "*")},
	}, nil
}

// setColumn returns text with one column of a user's line set to value. text has the format of a file such as passwd.
// Columns are numbered from 0.
func setColumn(text, user string, column int, value string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		cells := strings.Split(line, ":")
		if cells[0] != user || len(cells) <= column {
			continue
		}
		end := ""
		if column == len(cells)-1 && strings.HasSuffix(line, "\n") {
			end = "\n"
		}
		cells[column] = value + end
		lines[i] = strings.Join(cells, ":")
	}
	return strings.Join(lines, "")
}

// fstab returns the mounts of a host in the order in which they are made. /run comes last, because it may hide the
// cluster's state directory. mount(8) skips a mount whose source and directory are already mounted. So the source is
// "field", a name that the machine's own mounts do not have.
func (f *Cluster) fstab(o Options) string {
	// fstab(5): blanks in a path are written in octal.
	quote := strings.NewReplacer(" ", `\040`, "\t", `\011`, `\`, `\134`).Replace
	home := quote(HomeDir())
	lines := []string{
		"field /proc proc nosuid,nodev,noexec",
		"field /dev/shm tmpfs mode=1777",
		"field /tmp tmpfs mode=1777",
		"field /var/tmp tmpfs mode=1777",
	}
	if o.SharedHome {
		lines = append(lines, quote(f.Home)+" "+home+" none bind")
	} else {
		lines = append(lines, "field "+home+" tmpfs mode=700")
	}
	if o.Slurm {
		lines = append(lines, quote(f.path("slurm"))+" "+slurmDir+" none bind")
	}
	if o.SGE {
		lines = append(lines, quote(f.path("sge"))+" "+sgeDir+" none bind")
	}
	lines = append(lines, "field /run tmpfs mode=755")
	return strings.Join(lines, " 0 0\n") + " 0 0\n"
}

// HomeDir returns root's home directory according to /etc/passwd, which ssh and sshd also use.
func HomeDir() string {
	passwd, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(passwd)) {
		if cells := strings.Split(line, ":"); cells[0] == "root" && len(cells) > 5 {
			return cells[5]
		}
	}
	return "/root"
}

// startKeeper starts the keeper, which is the script keeper.sh or loopback.sh. The keeper starts all other processes of
// the cluster. Unless o.Keep is set, it removes the cluster's files when the process that called Up ends. pids provides
// lines "NAME PID". The caller must close linksReady when the hosts have their links.
func (f *Cluster) startKeeper(o Options, name string, args ...string) (linksReady io.Closer, pids io.ReadCloser, err error) {
	lock, err := f.lock()
	if err != nil {
		return nil, nil, err
	}
	defer lock.Close()
	log, err := os.Create(f.path("log"))
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	linksRead, linksWrite, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer linksRead.Close()
	out, outWrite, err := os.Pipe()
	if err != nil {
		linksWrite.Close()
		return nil, nil, err
	}
	defer outWrite.Close()

	cmd := exec.Command(name, args...)
	cmd.Env = f.keeperEnv(o)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = outWrite, log
	cmd.ExtraFiles = []*os.File{linksRead, lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if !o.Keep {
		var in *os.File
		if in, f.owner.keeperInput, err = os.Pipe(); err != nil {
			linksWrite.Close()
			out.Close()
			return nil, nil, err
		}
		defer in.Close()
		cmd.Stdin = in
	}
	if err := cmd.Start(); err != nil {
		linksWrite.Close()
		out.Close()
		return nil, nil, err
	}
	f.owner.keeper, f.ProcessGroup = cmd, cmd.Process.Pid
	return linksWrite, out, nil
}

// keeperEnv returns the environment of the keeper, the script that starts all other processes of the cluster.
func (f *Cluster) keeperEnv(o Options) []string {
	flag := map[bool]string{true: "yes"}
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"FIELD_STATE=" + f.State, "FIELD_REPO=" + f.Repo, "FIELD_HOME=" + HomeDir(),
		"FIELD_HOSTS=" + strings.ReplaceAll(f.Names(), ",", " "),
		"FIELD_KEEP=" + flag[o.Keep], "FIELD_SHARED=" + flag[o.SharedHome],
		"FIELD_SSHD=" + sshdPath(), "FIELD_OUTSIDE=" + namespace(os.Getpid(), "net"),
	}
}

// readPIDs reads the lines "NAME PID" of the head and all hosts from pids. It sets HeadPID, and Init of each host.
func (f *Cluster) readPIDs(ctx context.Context, pids io.ReadCloser) error {
	defer context.AfterFunc(ctx, func() { pids.Close() })()
	byName := map[string]*int{Head: &f.HeadPID}
	for i := range f.Hosts {
		byName[f.Hosts[i].Name] = &f.Hosts[i].Init
	}
	for lines := bufio.NewScanner(pids); len(byName) > 0; {
		if !lines.Scan() {
			return errors.Join(errors.New("a host did not start"), ctx.Err())
		}
		name, number, _ := strings.Cut(lines.Text(), " ")
		pid, err := strconv.Atoi(number)
		if err != nil || byName[name] == nil {
			return fmt.Errorf("unexpected line %q", lines.Text())
		}
		*byName[name] = pid
		delete(byName, name)
	}
	return nil
}

// linkHosts creates a veth link for each host. One end of the link is on the head's bridge, and the other is in the
// host.
func (f *Cluster) linkHosts(ctx context.Context) error {
	var batch bytes.Buffer
	for _, h := range f.Hosts {
		fmt.Fprintf(&batch, "link add %s master br0 up type veth peer name eth0 netns %d\n", h.Name, h.Init)
	}
	// It enters only the network namespace, because the pids are those of this PID namespace.
	cmd := exec.CommandContext(ctx, "nsenter", "--target", strconv.Itoa(f.HeadPID), "--net", "ip", "-batch", "-")
	cmd.Stdin = &batch
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, out)
	}
	return nil
}

// waitSSHD waits until the sshd of each host has written its PID file, which sshd does after listen(2).
func (f *Cluster) waitSSHD(ctx context.Context) error {
	for _, h := range f.Hosts {
		pidFile := f.path("hosts", h.Name, "sshd.pid")
		if f.Kind == Namespaces {
			pidFile = f.Root(h.Name) + hostDir + "/sshd.pid"
		}
		err := poll(ctx, func() (bool, error) {
			if _, err := os.Stat(pidFile); err == nil {
				return true, nil
			}
			return false, f.checkStarting(h)
		})
		if err != nil {
			return fmt.Errorf("%s: sshd does not listen: %w", h.Name, err)
		}
	}
	return nil
}

// checkStarting returns an error if the host has ended or the host's sshd has logged an error.
func (f *Cluster) checkStarting(h Host) error {
	if f.Kind == Namespaces {
		_, err := os.Stat("/proc/" + strconv.Itoa(h.Init))
		return err
	}
	// An sshd that starts without an error logs only that it listens.
	text, _ := os.ReadFile(f.path("hosts", h.Name, "sshd.log"))
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "Server listening") {
			return errors.New(strings.TrimSpace(line))
		}
	}
	return nil
}

// raiseNeighbourLimits raises the limits of the kernel's neighbour table, so that each host can have an entry for
// each other host. All network namespaces share this table (ip-sysctl: neigh/default/gc_thresh1..3). If the table
// is full, connections fail at random. If this process has no permission, as in a container, the limits do not
// change.
func raiseNeighbourLimits(hosts int) {
	need := 2 * (hosts + 1) * (hosts + 1)
	for i, want := range []int{need, 2 * need, 4 * need} {
		name := fmt.Sprintf("/proc/sys/net/ipv4/neigh/default/gc_thresh%d", i+1)
		text, err := os.ReadFile(name)
		have, convErr := strconv.Atoi(strings.TrimSpace(string(text)))
		if err == nil && convErr == nil && have < want {
			_ = os.WriteFile(name, []byte(strconv.Itoa(want)), 0)
		}
	}
}
