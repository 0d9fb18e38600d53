package launch

import (
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"remshell/hostlist"
	"remshell/job"
)

// died says how a rank ended, as the end of "rank 5 on node02 ...".
func died(e job.Exit) string {
	if e.Signal == 0 {
		return fmt.Sprintf("exited with code %d", e.Code)
	}
	text := fmt.Sprintf("died: %s (signal %d)", signalText(e.Signal), e.Signal)
	if e.Core {
		text += ", core dumped"
	}
	return text
}

// clock writes a time as hours, minutes and seconds.
func clock(d time.Duration) string {
	seconds := int(d.Round(time.Second) / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}

// signalText names a signal as strsignal(3) does, with a capital.
func signalText(number int) string {
	text := []byte(syscall.Signal(number).String())
	if len(text) > 0 && 'a' <= text[0] && text[0] <= 'z' {
		text[0] -= 'a' - 'A'
	}
	return string(text)
}

// signalName is the name that kill(1) knows.
func signalName(number syscall.Signal) string {
	if name := unix.SignalName(number); name != "" {
		return name
	}
	return fmt.Sprint("signal ", int(number))
}

// ranks writes a set of ranks: "rank 3", "ranks 0-3,7".
func ranks(set []int) string {
	set = slices.Sorted(slices.Values(set))
	text := ""
	for i := 0; i < len(set); {
		j := i
		for j+1 < len(set) && set[j+1] == set[j]+1 {
			j++
		}
		if text != "" {
			text += ","
		}
		text += strconv.Itoa(set[i])
		if j > i {
			text += "-" + strconv.Itoa(set[j])
		}
		i = j + 1
	}
	if len(set) == 1 {
		return "rank " + text
	}
	return "ranks " + text
}

func numbers(plans []job.RankPlan) []int {
	list := make([]int, len(plans))
	for i, p := range plans {
		list[i] = p.Rank
	}
	return list
}

// fold writes a set of host names in brackets: "node[03-17]".
func fold(names []string) string { return hostlist.Fold(names) }
