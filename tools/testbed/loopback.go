//go:build linux

package testbed

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// upLoopback starts one sshd for each host. If another process takes a host's port before sshd does, sshd logs an
// error, and upLoopback returns an error with the logged text.
func (f *Cluster) upLoopback(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	if err := f.addLoopbackHosts(o.Hosts); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		// As root, sshd requires its privilege separation folder.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return err
		}
	}
	if err := f.aliasFiles(o); err != nil {
		return err
	}
	linksReady, pids, err := f.startKeeper(o, "/bin/sh", f.path("loopback.sh"))
	if err != nil {
		return err
	}
	linksReady.Close()
	pids.Close()
	return f.waitSSHD(ctx)
}

// addLoopbackHosts appends the given number of hosts to f.Hosts. For each host it chooses an address and a port on
// which no process listens.
func (f *Cluster) addLoopbackHosts(hosts int) error {
	for i := range hosts {
		ln, err := listenLoopback(i)
		if err != nil {
			return err
		}
		defer ln.Close() // all at the end, so that no two hosts get the same
		at := ln.Addr().(*net.TCPAddr)
		f.Hosts = append(f.Hosts, Host{Name: "n" + strconv.Itoa(i+1), Addr: at.IP.String(), Port: at.Port})
	}
	return nil
}

// listenLoopback listens on a free port of the loopback address of host i, counted from 0. It uses 127.0.0.1 if the
// machine has no other address in 127.0.0.0/8.
func listenLoopback(i int) (net.Listener, error) {
	addr := fmt.Sprintf("127.0.%d.%d:0", (i+2)>>8, (i+2)&255)
	if ln, err := net.Listen("tcp4", addr); err == nil {
		return ln, nil
	}
	return net.Listen("tcp4", "127.0.0.1:0")
}

// aliasFiles writes the files of the cluster's state directory for the kinds Loopback and InProcess, whose
// hosts are aliases of this machine.
func (f *Cluster) aliasFiles(o Options) error {
	userKey, userPub, err := newKey("field")
	if err != nil {
		return err
	}
	var files []file
	for i, h := range f.Hosts {
		host, err := f.hostFiles(o, i, f.path("hosts", h.Name))
		if err != nil {
			return err
		}
		files = append(files, host...)
		files = append(files, startupFiles(filepath.Join("hosts", h.Name, "home"))...)
	}
	files = append(files, f.homeFiles(o, userKey, userPub)...)
	files = append(files, file{"loopback.sh", 0o600, loopbackScript})
	// For programs that start ssh themselves: ssh does not use $HOME (see sshConfig).
	if ssh, err := exec.LookPath("ssh"); err == nil {
		config := filepath.Join(f.Home, ".ssh", "config")
		files = append(files, file{"bin/ssh", 0o700,
			fmt.Sprintf("#!/bin/sh\nexec '%s' -F '%s' \"$@\"\n", ssh, config)})
	}
	return f.writeFiles(files)
}
