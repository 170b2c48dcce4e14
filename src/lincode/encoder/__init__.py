"""The encoder after training: calibration and refinement of its thresholded outputs."""
