package job

import (
	"fmt"
	"time"
)

// FormatClock formats a duration as HH:MM:SS, rounded to seconds. d must not be negative.
func FormatClock(d time.Duration) string {
	seconds := int(d.Round(time.Second) / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}
