"""Narrow units: programs of wide codes on builds of fewer bits, with exact results.

The units test narrow codes, which the host maps so that every match is found, and the host tests
what they found in full. Nothing above the device contract knows of it.
"""
