// Package release tests the container image, and what make release writes. To build the image takes buildah, and to run its
// programs takes root. Nothing is downloaded.
package release
