// Package image tests the container image. It needs buildah, and root to run what is in the image; nothing is downloaded.
package image
