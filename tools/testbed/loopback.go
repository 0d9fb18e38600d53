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

// upLoopback starts one sshd per host. A port that was free may be taken when sshd
// wants it; sshd then says so in its log and the attempt ends with that.
func (f *Cluster) upLoopback(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	if err := f.freePorts(o.Hosts); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		// sshd of root insists on its privilege separation folder.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return err
		}
	}
	if err := f.aliasFiles(o); err != nil {
		return err
	}
	go3, pids, err := f.startKeeper(o, "/bin/sh", f.path("loopback.sh"))
	if err != nil {
		return err
	}
	go3.Close()
	pids.Close()
	return f.waitSSHD(ctx)
}

// freePorts gives each host an address and port that nobody listens on.
func (f *Cluster) freePorts(hosts int) error {
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

// listenLoopback listens on a free port of the address of host i, counted from 0, or of
// 127.0.0.1 where the others of 127.0.0.0/8 are not configured.
func listenLoopback(i int) (net.Listener, error) {
	addr := fmt.Sprintf("127.0.%d.%d:0", (i+2)>>8, (i+2)&255)
	if ln, err := net.Listen("tcp4", addr); err == nil {
		return ln, nil
	}
	return net.Listen("tcp4", "127.0.0.1:0")
}

// aliasFiles writes the files of the kinds whose hosts are aliases of this machine.
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
	// For those who start ssh themselves: see sshConfig.
	if ssh, err := exec.LookPath("ssh"); err == nil {
		config := filepath.Join(f.Home, ".ssh", "config")
		files = append(files, file{"bin/ssh", 0o700,
			fmt.Sprintf("#!/bin/sh\nexec '%s' -F '%s' \"$@\"\n", ssh, config)})
	}
	return f.writeFiles(files)
}
