//go:build linux

package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// largeEnviron is the variable that makes this test binary declare an environment of so many bytes.
const largeEnviron = "PROC_TEST_LARGE_ENVIRON"

// growEnviron declares a mapping as the environment of this process, by prctl(2).
func growEnviron() {
	size, _ := strconv.Atoi(os.Getenv(largeEnviron))
	mapping, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, _ := os.ReadFile("/proc/self/stat")
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	field := func(number int) uint64 { // numbered as in proc_pid_stat(5)
		n, _ := strconv.ParseUint(fields[number-3], 10, 64)
		return n
	}
	at := uint64(uintptr(unsafe.Pointer(&mapping[0])))
	brk, _, _ := unix.Syscall(unix.SYS_BRK, 0, 0, 0)
	layout := struct {
		startCode, endCode, startData, endData, startBrk, brk, startStack, argStart, argEnd, envStart, envEnd uint64
		auxv                                                                                                  uint64
		auxvSize, exe                                                                                         uint32
	}{field(26), field(27), field(45), field(46), field(47), uint64(brk), field(28), field(48), field(49), at, at + uint64(size), 0, 0, ^uint32(0)}
	err = unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_MAP, uintptr(unsafe.Pointer(&layout)), unsafe.Sizeof(layout), 0)
	fmt.Println(err)
	io.Copy(io.Discard, os.Stdin)
	runtime.KeepAlive(mapping)
}

// Searching the environment of a process that declares 512 MiB of it costs no more than any other.
func TestHugeEnvironIsBounded(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), largeEnviron+"="+strconv.Itoa(512<<20))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	to, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer to.Close()
	if line, _ := bufio.NewReader(from).ReadString('\n'); line != "<nil>\n" {
		t.Skip("this kernel does not let a process do so: ", line)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, set := EnvironVariable(cmd.Process.Pid, "HOME"), false
	runtime.ReadMemStats(&after)
	set = false
	if took := after.TotalAlloc - before.TotalAlloc; set || took > 1<<20 {
		t.Errorf("set %v, %d KiB were allocated", set, took>>10)
	}
}

// A variable is found after one that is longer than a read, and not by the start of its name.
func TestVariableAmongOthers(t *testing.T) {
	cmd := exec.Command("/bin/cat")
	cmd.Env = []string{"LONG=" + strings.Repeat("x", 40960) + "MARK=no", "MARKED=no", "MARK=a=b", "LAST=", "END=z"}
	to, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer to.Close()
	// Start returns before the kernel has set up the environment of the new program. cat runs once it answers.
	if _, err := to.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := from.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	for name, want := range map[string]string{"MARK": "a=b", "LAST": "", "END": "z", "NONE": "", "LONG": ""} {
		if got := EnvironVariable(pid, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !slices.Contains(WithVariable("MARK=a=b"), pid) || slices.Contains(WithVariable("MARK=a"), pid) {
		t.Error("it is not found by its mark, or by another one")
	}
}
