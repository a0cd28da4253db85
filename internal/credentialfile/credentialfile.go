// Package credentialfile reads the files that a plugin's arguments name.
package credentialfile

import (
	"github.com/plimsoll-scheduler/plimsoll/apis/config/validation"
	"github.com/plimsoll-scheduler/plimsoll/internal/boundedfile"
)

// Readers read the files where this program runs.
func Readers() validation.Files {
	return validation.Files{Token: boundedfile.ReadToken, CA: boundedfile.ReadCA}
}
