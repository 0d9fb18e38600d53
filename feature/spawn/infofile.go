//go:build linux

package spawn

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"remshell/helper/rank"
	"remshell/hostlist"
	"remshell/pmiserver/spawn"
)

// This file reads the files that the info keys "file" and "hostfile" of a spawn name (rule TRUST-11). It
// does so on the node, with the rights and in the directory of the rank that asks: mpiexec opens no file
// that a rank has named. mpiexec gets other keys instead:
//
//	file=F      host = n2           --> host=n2, and the other keys of F that mean something
//	hostfile=F  n2 slots=4          --> hosts=n2:4
//	            n3

// maxInfoBytes is the maximum size of an info file or host file, in bytes.
const maxInfoBytes = 1 << 20

// expandFiles replaces the info keys that name files with the contents of the files, in all commands of a request.
func expandFiles(commands []spawn.Command, dir string) error {
	for i, c := range commands {
		info, err := expandInfoFile(c.Info, dir)
		if err == nil {
			info, err = expandHostFile(info, dir)
		}
		if err != nil {
			return err
		}
		commands[i].Info = info
	}
	return nil
}

// expandInfoFile returns info with the key "file" replaced by the keys in the file that it names. If a key
// is in both, the value in info takes precedence. Each line of the file is KEY = VALUE.
func expandInfoFile(info []spawn.Pair, dir string) (all []spawn.Pair, err error) {
	var direct []spawn.Pair
	for _, p := range info {
		if p.Key != "file" {
			direct = append(direct, p)
			continue
		}
		text, err := readPlainFile(p.Value, dir)
		if err != nil {
			return nil, fmt.Errorf(`info key "file": %w`, err)
		}
		read, err := parseInfoFile(text)
		if err != nil {
			return nil, fmt.Errorf(`info key "file": %s: %w`, p.Value, err)
		}
		all = append(all, read...)
	}
	return append(all, direct...), nil
}

// parseInfoFile returns the keys of an info file that choose hosts and numbers of ranks. It returns an error
// for a key that chooses a program or a user, because the file comes from a rank (rule TRUST-27).
func parseInfoFile(text []byte) (read []spawn.Pair, err error) {
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, "=")
		switch key = strings.TrimSpace(key); key {
		case "host", "hosts", "add-host", "hostfile", "wdir", "arch", "soft":
			read = append(read, spawn.Pair{Key: key, Value: strings.TrimSpace(value)})
		case "path", "env", "user", "port":
			return nil, fmt.Errorf("%s= is not allowed in this file", key)
		}
	}
	return read, nil
}

// expandHostFile returns info with the key that names a host file replaced by the hosts and slots in the file.
func expandHostFile(info []spawn.Pair, dir string) (all []spawn.Pair, err error) {
	for _, p := range info {
		if p.Key == "hostfile" {
			hosts, err := readHosts(p.Value, dir)
			if err != nil {
				return nil, fmt.Errorf(`info key "hostfile": %w`, err)
			}
			p = spawn.Pair{Key: "hosts", Value: hosts}
		}
		all = append(all, p)
	}
	return all, nil
}

// readHosts reads a host file and returns its hosts in the form of an argument of -host. An error contains the number
// of a line, but never its text.
func readHosts(file, dir string) (string, error) {
	var unreadable error
	open := func(name string) (io.ReadCloser, error) {
		text, err := readPlainFile(name, dir)
		if err != nil {
			unreadable = err
		}
		return io.NopCloser(bytes.NewReader(text)), err
	}
	entries, err := hostlist.ReadFile(file, open, nil)
	var at *hostlist.SyntaxError
	switch {
	case unreadable != nil:
		return "", unreadable
	case errors.As(err, &at):
		return "", fmt.Errorf("%s:%d: this is not a line of a host file", at.File, at.Line)
	case err != nil:
		return "", fmt.Errorf("%s is not a host file", file)
	}
	var hosts []string
	for _, e := range entries {
		if e.User != "" || e.Port != 0 || e.Address != "" || e.Alias != "" || len(e.Env) > 0 || len(e.Attrs) > 0 || e.Exclude {
			return "", fmt.Errorf("%s:%d: only hosts and slots are allowed in this file", e.File, e.Line)
		}
		word := e.Host
		if e.Slots > 0 {
			word += ":" + strconv.Itoa(e.Slots)
		}
		hosts = append(hosts, word)
	}
	return strings.Join(hosts, ","), nil
}

// readPlainFile reads a small regular file. It does not open other kinds of files, because opening a pipe could block
// and opening a device could have an effect.
func readPlainFile(name, dir string) ([]byte, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	switch err := unix.Fstat(fd, &stat); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case stat.Mode&syscall.S_IFMT != syscall.S_IFREG:
		return nil, fmt.Errorf("%s is not a regular file", name)
	case stat.Size > maxInfoBytes:
		return nil, fmt.Errorf("%s is too large; at most %d bytes are allowed", name, maxInfoBytes)
	}
	file, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, rank.WithoutPath(err))
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxInfoBytes+1))
	if err == nil && len(text) > maxInfoBytes { // such as a file of /proc, whose reported size is 0
		err = fmt.Errorf("the file is too large; at most %d bytes are allowed", maxInfoBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, rank.WithoutPath(err))
	}
	return text, nil
}
