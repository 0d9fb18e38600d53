// Memoryhog is a program that takes memory in ways that a limit can miss:
//
//	memoryhog heap MIB      memory of its own
//	memoryhog memfd MIB     a file of memfd_create(2) that it has open and not mapped
//	memoryhog shm MIB       a file in /dev/shm as shm_open(3) makes it, written, closed, and removed on SIGTERM
//	memoryhog window MIB N  memory that N processes share, and all of them write
//	memoryhog daemon MIB    memory of a process of its own session, without environment, whose parent is gone
//
// Each says "ready" and waits to be ended.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	mib, err := strconv.Atoi(os.Args[2])
	if err == nil {
		err = useMemory(os.Args[1], mib<<20)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "hog:", err)
		os.Exit(1)
	}
}

func useMemory(kind string, size int) error {
	var held any
	var err error
	switch kind {
	case "heap":
		held, err = mapMemory(-1, size, unix.MAP_PRIVATE|unix.MAP_ANON)
	case "memfd":
		fd, failed := unix.MemfdCreate("hog", 0)
		if err = failed; err == nil {
			held, err = fd, fill(os.NewFile(uintptr(fd), "memfd"), size)
		}
	case "shm":
		return shm(size)
	case "window":
		held, err = window(size)
	case "share": // of a window that the parent has at descriptor 3
		held, err = mapMemory(3, size, unix.MAP_SHARED)
		return reportReady(held, err)
	case "daemon":
		return runSelf(&syscall.SysProcAttr{}, "between", os.Args[2]).Run() // its child outlives it
	case "between":
		return runSelf(&syscall.SysProcAttr{Setsid: true}, "heap", os.Args[2]).Start()
	default:
		err = fmt.Errorf("nothing is known of %s", kind)
	}
	return reportReady(held, err)
}

// reportReady prints "ready" and waits. It returns err at once if it is not nil.
func reportReady(held any, err error) error {
	if err == nil {
		fmt.Println("ready")
		time.Sleep(time.Hour)
		fmt.Fprint(os.Stderr, held) // keeps the memory in use until then
	}
	return err
}

// runSelf returns a command that runs this program again, without an environment.
func runSelf(as *syscall.SysProcAttr, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.SysProcAttr, cmd.Env, cmd.Stdout, cmd.Stderr = as, []string{}, os.Stdout, os.Stderr
	return cmd
}

// mapMemory maps memory and writes to all of it.
func mapMemory(fd, size, flags int) ([]byte, error) {
	memory, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	return memory, err
}

// fill writes a file.
func fill(f *os.File, size int) error {
	for chunk := make([]byte, 1<<20); size > 0; size -= len(chunk) {
		if _, err := f.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// shm makes a file in /dev/shm. A second later no process has it open.
func shm(size int) error {
	name := filepath.Join("/dev/shm", fmt.Sprint("hog-", os.Getpid()))
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(name)
	if err := fill(f, size); err != nil {
		return err
	}
	time.AfterFunc(1500*time.Millisecond, func() { f.Close() })
	fmt.Println("ready")
	<-ended
	return nil
}

// window maps memory that it shares with n child processes.
func window(size int) ([]byte, error) {
	n, err := strconv.Atoi(os.Args[3])
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("window", unix.MFD_CLOEXEC)
	if err == nil {
		err = unix.Ftruncate(fd, int64(size))
	}
	if err != nil {
		return nil, err
	}
	for range n - 1 {
		cmd := runSelf(&syscall.SysProcAttr{}, "share", os.Args[2])
		cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "window")}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
	}
	return mapMemory(fd, size, unix.MAP_SHARED)
}
