//go:build linux

package testbed

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// availableKinds returns the kinds that this machine allows: all of them for root.
func availableKinds(t *testing.T) []Kind {
	var kinds []Kind
	for _, kind := range []Kind{Namespaces, Loopback, InProcess} {
		if _, err := chooseKind(t.Context(), Options{Kind: kind}); err == nil {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// eachKind runs the test on a cluster of every kind that this machine allows.
func eachKind(t *testing.T, o Options, test func(*testing.T, *Cluster)) {
	for _, kind := range availableKinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			o.Kind = kind
			test(t, New(t, o))
		})
	}
}

// needNamespaces skips the test unless this machine allows kind Namespaces.
func needNamespaces(t *testing.T) {
	if err := checkNamespaces(t.Context()); err != nil {
		t.Skip(err)
	}
}

// output runs a command and returns its standard output without the last newline. If the command fails, so
// does the test.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", cmd.Args, err, out, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

// contextBeforeDeadline returns a context that ends after five minutes, before the test binary's own timeout.
func contextBeforeDeadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestSSHFromHead(t *testing.T) {
	eachKind(t, Options{Hosts: 3}, func(t *testing.T, f *Cluster) {
		for _, h := range f.Hosts {
			got := output(t, f.Command(contextBeforeDeadline(t), nil, "ssh", h.Name, "echo $HOME; cat ~/.bashrc; pwd >&2"))
			if !strings.HasSuffix(got, "# a host of a test field") {
				t.Errorf("%s: home and its .bashrc: got %q", h.Name, got)
			}
		}
	})
}

func TestHashedKnownHosts(t *testing.T) {
	eachKind(t, Options{Hosts: 1, HashKnown: true}, func(t *testing.T, f *Cluster) {
		known, err := os.ReadFile(filepath.Join(f.Home, ".ssh", "known_hosts"))
		if err != nil || strings.Contains(string(known), f.Hosts[0].Addr) || !strings.HasPrefix(string(known), "|1|") {
			t.Errorf("known_hosts is not hashed: %v\n%s", err, known)
		}
		output(t, f.Command(contextBeforeDeadline(t), nil, "ssh", "-o", "StrictHostKeyChecking=yes", "n1", "true"))
	})
}

func TestAlias(t *testing.T) {
	eachKind(t, Options{Hosts: 2}, func(t *testing.T, f *Cluster) {
		if err := f.AddAlias("n2", "a1", "a2"); err != nil {
			t.Fatal(err)
		}
		output(t, f.Command(contextBeforeDeadline(t), nil, "ssh", "a2", "true"))
		if err := f.AddAlias("n3", "a3"); err == nil {
			t.Error("an alias of a host that is not there")
		}
	})
}

// Hosts differ in everything by which a launcher may identify them.
func TestHostsDiffer(t *testing.T) {
	needNamespaces(t)
	f := New(t, Options{Hosts: 3})
	questions := []string{
		"hostname",
		"ip -o -4 addr show eth0",
		"ls /dev/shm",
		"ls /tmp",
		"cat ~/who",
		"cat /run/field/ssh_host_ed25519_key.pub",
	}
	for _, h := range f.Hosts {
		output(t, f.On(contextBeforeDeadline(t), h.Name, "sh", "-c", "for f in /tmp /dev/shm; do echo >$f/$0; done; echo $0 >~/who", h.Name))
	}
	seen := map[string]string{}
	for _, h := range f.Hosts {
		answers := output(t, f.Command(contextBeforeDeadline(t), nil, "ssh", h.Name, strings.Join(questions, "; echo //; ")))
		for i, answer := range strings.Split(answers, "\n//\n") {
			answer = questions[i] + ": " + answer
			if other := seen[answer]; other != "" {
				t.Errorf("%s and %s: %s", other, h.Name, answer)
			}
			seen[answer] = h.Name
		}
	}
	if want := len(questions) * len(f.Hosts); len(seen) != want {
		t.Errorf("%d different answers, want %d: %v", len(seen), want, seen)
	}
}

func TestHostsSeeBuildButNotBin(t *testing.T) {
	needNamespaces(t)
	repo, err := Repo()
	if err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(repo, "bin", fmt.Sprintf("field-test-%d", os.Getpid()))
	if err := os.MkdirAll(filepath.Dir(mark), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mark, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(mark) })
	for _, shared := range []bool{false, true} {
		f := New(t, Options{Hosts: 1, SharedHome: shared})
		_, err := os.Stat(f.Root("n1") + mark)
		if there := err == nil; there != shared {
			t.Errorf("shared home %v: bin/ visible %v", shared, there)
		}
		if _, err := os.Stat(f.Root("n1") + filepath.Join(repo, "go.mod")); err != nil {
			t.Errorf("shared home %v: the repository is not visible: %v", shared, err)
		}
		output(t, f.Command(contextBeforeDeadline(t), nil, "touch", HomeDir()+"/from-head"))
		_, err = os.Stat(f.Root("n1") + HomeDir() + "/from-head")
		if there := err == nil; there != shared {
			t.Errorf("shared home %v: home of the head visible %v", shared, there)
		}
	}
}

func TestLoginShellAndSSHDConfig(t *testing.T) {
	needNamespaces(t)
	f := New(t, Options{Hosts: 1, Shell: "/bin/dash", MaxStartups: "3:50:7", SSHDConfig: "MaxSessions 2"})
	if got := output(t, f.Command(contextBeforeDeadline(t), nil, "ssh", "n1", "readlink /proc/$$/exe")); got != "/usr/bin/dash" {
		t.Errorf("login shell: got %q, want /usr/bin/dash", got)
	}
	got := output(t, f.On(contextBeforeDeadline(t), "n1", "/usr/sbin/sshd", "-T", "-f", "/run/field/sshd_config"))
	for _, want := range []string{"maxstartups 3:50:7\n", "maxsessions 2\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("sshd -T: no %q in\n%s", want, got)
		}
	}
}

// Processes lists processes that a session has left behind.
func TestProcesses(t *testing.T) {
	eachKind(t, Options{Hosts: 2}, func(t *testing.T, f *Cluster) {
		output(t, f.Command(contextBeforeDeadline(t), nil, "ssh", "n1", "setsid sleep 1000 </dev/null >/dev/null 2>&1 &"))
		find := func(host string) []Process {
			all, err := f.Processes(host)
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		// sshd's session ends a little after its client.
		err := poll(contextBeforeDeadline(t), func() (bool, error) {
			all := find("n1")
			return len(all) == 1 && strings.Join(all[0].Args, " ") == "sleep 1000" && all[0].UID == os.Geteuid(), nil
		})
		if err != nil {
			t.Errorf("n1: got %v, want the sleep alone: %v", find("n1"), err)
		}
		if all := find("n2"); len(all) != 0 {
			t.Errorf("n2: got %v, want nothing", all)
		}
	})
}

func TestEnter(t *testing.T) {
	eachKind(t, Options{Hosts: 1}, func(t *testing.T, f *Cluster) {
		wd, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		var inside, where string
		err = f.Enter(func() {
			cmd := exec.Command("sh", "-c", "readlink /proc/self/ns/net; pwd")
			cmd.Env = f.Environ()
			out, _ := cmd.Output()
			inside, where, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
		})
		if err != nil {
			t.Fatal(err)
		}
		direct := output(t, f.Command(contextBeforeDeadline(t), nil, "readlink", "/proc/self/ns/net"))
		if inside != direct || where != wd {
			t.Errorf("Enter: in %q, folder %q; want %q, %q", inside, where, direct, wd)
		}
		if here, _ := os.Readlink("/proc/self/ns/net"); f.Kind == Namespaces && here == direct {
			t.Error("the head is in the network namespace of this test")
		}
		if err := f.Enter(func() { runtime.Goexit() }); err == nil {
			t.Error("Enter does not tell that the function ended its goroutine")
		}
	})
}

func TestLink(t *testing.T) {
	needNamespaces(t)
	f := New(t, Options{Hosts: 2})
	reach := func(host string) error {
		return f.Command(contextBeforeDeadline(t), nil, "ssh", "-o", "ConnectTimeout=1", host, "true").Run()
	}
	if err := f.SetLink("n1", false); err != nil {
		t.Fatal(err)
	}
	if reach("n1") == nil {
		t.Error("n1 is reached over a link that is down")
	}
	if err := reach("n2"); err != nil {
		t.Errorf("n2 is not reached while the link of n1 is down: %v", err)
	}
	if err := f.SetLink("n1", true); err != nil {
		t.Fatal(err)
	}
	// The kernel reports a carrier at most once a second (linkwatch).
	if err := poll(contextBeforeDeadline(t), func() (bool, error) { return reach("n1") == nil, nil }); err != nil {
		t.Errorf("n1 is not reached after its link came back: %v", err)
	}
}

func TestFirewall(t *testing.T) {
	needNamespaces(t)
	f := New(t, Options{Hosts: 1})
	reach := func() error {
		return f.Command(contextBeforeDeadline(t), nil, "ssh", "-o", "ConnectTimeout=1", "n1", "true").Run()
	}
	steps := []struct {
		name string
		do   func() error
		want bool
	}{
		{"ssh alone", func() error { return f.Block("n1", 22) }, true},
		{"another port", func() error { return f.Block("n1", 23) }, false},
		{"nothing", func() error { return f.Block("n1") }, false},
		{"all", func() error { return f.Unblock("n1") }, true},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatal(err)
		}
		if err := reach(); (err == nil) != s.want {
			t.Errorf("firewall lets through %s: ssh: %v", s.name, err)
		}
	}
}

func TestDownLeavesNothing(t *testing.T) {
	eachKind(t, Options{Hosts: 3}, func(t *testing.T, f *Cluster) {
		before := mountsAndInterfaces(t)
		// Processes that could survive: on the head, in a host, and started by a session of sshd.
		stray := f.Command(context.Background(), nil, "sleep", "1000")
		inside := f.On(context.Background(), "n2", "sleep", "1000")
		for _, cmd := range []*exec.Cmd{stray, inside} {
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if f.Kind != Namespaces {
				// Down does not kill commands on this machine.
				cmd.Process.Kill()
			}
		}
		output(t, f.Command(contextBeforeDeadline(t), nil, "ssh", "n1", "setsid sleep 1000 </dev/null >/dev/null 2>&1 &"))
		state, hosts := f.State, f.Hosts
		if err := f.Down(); err != nil {
			t.Error(err)
		}
		stray.Wait()
		inside.Wait()
		if _, err := os.Stat(state); err == nil {
			t.Errorf("%s is still there", state)
		}
		if got := mountsAndInterfaces(t); got != before {
			t.Errorf("mounts and interfaces\nbefore: %s\nafter: %s", before, got)
		}
		left := leftovers(t, state, hosts)
		if len(left) != 0 {
			t.Errorf("processes left: %v", left)
		}
	})
}

// leftovers returns the processes that have the cluster's mark, name its state folder in their
// arguments, or are process 1 of one of its hosts.
func leftovers(t *testing.T, state string, hosts []Host) []Process {
	all, err := processes()
	if err != nil {
		t.Fatal(err)
	}
	var left []Process
	for _, p := range all {
		if p.PID == os.Getpid() {
			continue
		}
		named := strings.Contains(strings.Join(p.Args, " "), state) || hasMark(p.PID, state+":")
		for _, h := range hosts {
			named = named || p.PID == h.Init
		}
		if named {
			left = append(left, p)
		}
	}
	return left
}

// mountsAndInterfaces returns the mounts and network interfaces of the machine, outside of all clusters.
func mountsAndInterfaces(t *testing.T) string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	links, err := os.ReadDir("/sys/class/net")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.Write(mounts)
	for _, l := range links {
		fmt.Fprintln(&b, l.Name())
	}
	return b.String()
}

// makerVar is the environment variable that makes the test binary create a cluster and wait to be killed. Its value is
// the kind.
const makerVar = "FIELD_TEST_MAKER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(makerVar); kind != "" {
		f, err := Up(context.Background(), Options{Hosts: 3, Kind: Kind(kind)})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(f.State)
		select {}
	}
	flag.Parse()
	if testing.Short() {
		fmt.Println("testbed: left out by -short")
		return
	}
	os.Exit(m.Run())
}

func TestKilledMakerLeavesNothing(t *testing.T) {
	for _, kind := range availableKinds(t) {
		if kind == InProcess {
			continue // its servers run in the killed process itself
		}
		t.Run(string(kind), func(t *testing.T) {
			maker := exec.Command("/proc/self/exe")
			maker.Env = append(os.Environ(), makerVar+"="+string(kind))
			out, err := maker.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := maker.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			lines.Scan()
			state := lines.Text()
			f, err := Open(filepath.Base(state))
			if err != nil {
				maker.Process.Kill()
				t.Fatalf("%v: %s", err, state)
			}
			var stray *exec.Cmd
			if kind == Namespaces {
				stray = f.Command(context.Background(), nil, "sleep", "1000")
				if err := stray.Start(); err != nil {
					t.Fatal(err)
				}
			}
			output(t, f.Command(contextBeforeDeadline(t), nil, "ssh", "n1", "setsid sleep 1000 </dev/null >/dev/null 2>&1 &"))
			maker.Process.Kill()
			maker.Wait()
			if stray != nil {
				stray.Wait()
			}
			err = poll(contextBeforeDeadline(t), func() (bool, error) {
				_, err := os.Stat(state)
				return os.IsNotExist(err) && len(leftovers(t, state, f.Hosts)) == 0, nil
			})
			if err != nil {
				t.Errorf("%v; left: %v", err, leftovers(t, state, f.Hosts))
			}
		})
	}
}

// Two clusters do not disturb each other, and a name can be used only once.
func TestSeveralClusters(t *testing.T) {
	eachKind(t, Options{Hosts: 1, Name: fmt.Sprintf("twin%d", os.Getpid())}, func(t *testing.T, f *Cluster) {
		other := New(t, Options{Hosts: 1, Kind: f.Kind})
		output(t, f.Command(contextBeforeDeadline(t), nil, "ssh", "n1", "true"))
		output(t, other.Command(contextBeforeDeadline(t), nil, "ssh", "n1", "true"))
		if again, err := Up(t.Context(), Options{Hosts: 1, Kind: f.Kind, Name: f.Name}); err == nil {
			again.Down()
			t.Errorf("two clusters are called %q", f.Name)
		}
		opened, err := Open(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		output(t, opened.Command(contextBeforeDeadline(t), nil, "ssh", "n1", "true"))
	})
}

func TestUpReportsErrors(t *testing.T) {
	for _, kind := range availableKinds(t) {
		if kind == InProcess {
			continue // has no sshd_config
		}
		_, err := Up(t.Context(), Options{Hosts: 2, Kind: kind, SSHDConfig: "NoSuchKeyword yes"})
		if err == nil || !strings.Contains(err.Error(), "NoSuchKeyword") {
			t.Errorf("%s: got %v, want sshd's complaint about NoSuchKeyword", kind, err)
		}
	}
	for _, hosts := range []int{-1, 0, MaxHosts + 1} {
		if _, err := Up(t.Context(), Options{Hosts: hosts}); err == nil {
			t.Errorf("%d hosts are possible", hosts)
		}
	}
}

func TestManyHosts(t *testing.T) {
	eachKind(t, Options{Hosts: 1}, func(t *testing.T, small *Cluster) {
		start := time.Now()
		f := New(t, Options{Hosts: 64, Kind: small.Kind})
		t.Logf("64 hosts, %s: up in %v", f.Kind, time.Since(start).Round(time.Millisecond))
		for _, i := range []int{0, 31, 63} {
			output(t, f.Command(contextBeforeDeadline(t), nil, "ssh", f.Hosts[i].Name, "true"))
		}
		start = time.Now()
		if err := f.Down(); err != nil {
			t.Error(err)
		}
		t.Logf("64 hosts, %s: down in %v", f.Kind, time.Since(start).Round(time.Millisecond))
	})
}

// Hydra runs a real MPI program on a cluster. It tells the ranks to use the hosts' names, which
// only hosts of kind Namespaces have.
func TestHydra(t *testing.T) {
	needNamespaces(t)
	if _, err := exec.LookPath("mpiexec.hydra"); err != nil {
		t.Skip("no MPICH on this machine; run as root: testdata/install.sh")
	}
	repo, err := Repo()
	if err != nil {
		t.Fatal(err)
	}
	output(t, exec.CommandContext(t.Context(), filepath.Join(repo, "testdata", "programs.sh")))
	f := New(t, Options{Hosts: 2})
	got := output(t, f.Command(contextBeforeDeadline(t), nil, "mpiexec.hydra", "-launcher-exec", f.SSH(), "-hosts", f.Names(), "-n", "4",
		filepath.Join(repo, "build", "programs", "hello")))
	for _, want := range []string{"ring ok", "allreduce ok", "rank 3 of 4 on "} {
		if !strings.Contains(got, want) {
			t.Errorf("hello: no %q in\n%s", want, got)
		}
	}
}

func TestPrivateDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fields")
	for _, mode := range []fs.FileMode{0o700, 0o755} {
		if err := os.MkdirAll(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := privateDir(dir); err != nil {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if privateDir(dir) == nil {
		t.Error("a folder that all may write to is taken")
	}
}
