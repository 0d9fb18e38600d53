//go:build linux

package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"remshell/tools/testbed"
)

// unpackModule makes libvirt's module for nsswitch.conf ready, once.
var unpackModule = sync.OnceValues(func() ([]byte, error) {
	return exec.Command(filepath.Join(repoRoot, "testdata", "nss.sh"), filepath.Join(repoRoot, "build", "nss")).CombinedOutput()
})

// nssModule returns the variable by which the C library finds libvirt's module for nsswitch.conf.
func nssModule(t *testing.T) (env string) {
	t.Helper()
	if _, err := exec.LookPath("apt-get"); err != nil {
		t.Skip(err)
	}
	if out, err := unpackModule(); err != nil {
		t.Fatalf("nss.sh: %v: %s", err, out)
	}
	folders, err := filepath.Glob(filepath.Join(repoRoot, "build", "nss", "*", "*-linux-gnu"))
	more, _ := filepath.Glob(filepath.Join(repoRoot, "build", "nss", "usr", "*", "*-linux-gnu"))
	if err != nil || len(folders)*len(more) == 0 {
		t.Fatalf("no modules: %v", err)
	}
	return "LD_LIBRARY_PATH=" + strings.Join(append(folders, more...), ":")
}

// addNSSNames has the C library of a host, or of the head, look names up as libvirt does, whose files these are from now on.
func (b *testCluster) addNSSNames(t *testing.T, host string, addrs map[string]string) {
	t.Helper()
	type lease struct {
		Address  string `json:"ip-address"`
		MAC      string `json:"mac-address"`
		Hostname string `json:"hostname"`
		Expiry   int64  `json:"expiry-time"`
	}
	var leases []lease
	for name, addr := range addrs {
		leases = append(leases, lease{addr, "52:54:00:00:00:01", name, 4102444800})
	}
	status, err := json.Marshal(leases)
	if err != nil {
		t.Fatal(err)
	}
	b.hostNames(t, "files libvirt")
	b.runOn(t, host, "sh", "-ec", "mount -t tmpfs field /var/lib; mkdir -p /var/lib/libvirt/dnsmasq; echo '"+string(status)+"' >/var/lib/libvirt/dnsmasq/virbr0.status")
}

// Names that neither a file nor a name server knows, but a module of nsswitch.conf. ssh reaches these hosts.
func TestNamesOfNsswitch(t *testing.T) {
	t.Parallel()
	env, hello := nssModule(t), mpiProgram(t, "hello")
	b := newTestCluster(t, testbed.Options{Hosts: 2, SSHDConfig: "SetEnv " + env})
	b.requireNamespaces(t)
	names := map[string]string{"pi1.local": b.Hosts[0].Addr, "pi2.local": b.Hosts[1].Addr}
	b.addNSSNames(t, testbed.Head, names)
	b.sshFile(t, "known_hosts", func(old string) string {
		return old + "pi1.local " + b.Hosts[0].Key + "\npi2.local " + b.Hosts[1].Key + "\n"
	})
	for name := range names {
		if _, errs, code := b.runOnHead(t, "env", env, "ssh", name, "true"); code != 0 {
			t.Fatalf("ssh %s: exit %d: %s", name, code, errs)
		}
	}
	run := func(args ...string) result {
		return b.startMpiexec(t, mpiexecCall{args: args, env: []string{env}}).wait(t)
	}
	run("-hosts", "pi1.local:1,pi2.local:1", "-n", "2", hello).checkOutput(t, b, b.helloLines([]string{"n1", "n2"}, 1))
	if r := run("-host", "pi3.local", "-n", "1", "true"); r.code != 125 || !strings.Contains(r.err, "pi3.local: resolve: ") {
		t.Errorf("a name that nobody knows: exit %d, %s", r.code, r.err)
	}

	// n1 knows its own name by the module alone.
	b.runOn(t, "n1", "sh", "-ec", "echo 127.0.0.1 localhost >/run/hosts; mount --bind /run/hosts /etc/hosts")
	if r := run("--doctor", "n1,n2"); !strings.Contains(r.out, "the host cannot resolve its own name") {
		t.Errorf("--doctor does not miss the address of n1's own name:\n%s%s", r.out, r.err)
	}
	b.addNSSNames(t, "n1", map[string]string{"n1": b.Hosts[0].Addr})
	if r := run("--doctor", "n1,n2"); strings.Contains(r.out, "own name") {
		t.Errorf("--doctor misses the address of n1's own name:\n%s%s", r.out, r.err)
	}
}
